"""Exact relations between columns against tables whose relations are known."""

import json
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from fdsm.serialize import RecordError, from_json, to_json
from fdsm.tables.relations import Cell, DatePart, Lookup, Relations
from fdsm.tables.relations.search import find_step
from fdsm.tables.relations.terms import calendar_part
from fdsm.tables.schema import TableSchema, training_rows

ROWS = 1000


def codes_of(columns: dict[str, object]) -> tuple[Tensor, TableSchema]:
    """Return the codes of a table in random order, and its schema."""
    frame = pa.table({name: pa.array(values) for name, values in columns.items()})
    schema = TableSchema.infer(frame)
    return torch.from_numpy(training_rows(frame, schema).codes), schema


def relations_of(columns: dict[str, object]) -> tuple[Relations, Tensor, TableSchema]:
    """Return the relations of a table, its codes and its schema."""
    codes, schema = codes_of(columns)
    return Relations.fit(codes, schema), codes, schema


def damaged(values: object, wrong: object, count: int = 3) -> np.ndarray:
    """Return a column with another value in the first rows."""
    result = np.array(values)
    result[:count] = wrong
    return result


def formulas() -> dict[str, tuple[dict[str, object], str]]:
    """Return tables with three wrong rows of 1,000, and the only relation of each."""
    g = np.random.default_rng(0)
    a, b = g.integers(100, 900, ROWS), g.integers(2, 400, ROWS)
    x, y = g.normal(size=ROWS), g.normal(size=ROWS)
    hours = (g.random(ROWS) * 24).round(1)
    return {
        "sum": ({"a": a, "b": b, "c": damaged(a + b, 1)}, "c = a + b"),
        "difference": ({"a": a, "b": b, "c": damaged(a - b, 5000)}, "c = a - b"),
        "floats": ({"a": x, "b": y, "c": damaged(x + y, 9.5)}, "c = a + b"),
        "rest": ({"a": hours, "b": damaged((24 - hours).round(1), 30.5)}, "a + b = 24"),
        "product": ({"a": a, "b": b, "c": damaged(a * b, 77)}, "c = a * b"),
        "rounded product": (
            {"a": a / 100, "b": b, "c": damaged((a * b / 100).round(), 77)},
            "c = a * b",
        ),
        "quotient": ({"a": a, "b": b, "c": damaged((a / b).round(2), 0.5)}, "c = a / b"),
        "unit": ({"a": a, "c": damaged((a * 1.609).round(), 3)}, "c = 1.609 * a"),
        "negative unit": ({"a": x, "c": damaged(32 - 1.8 * x, 3)}, "c = -1.8 * a + 32"),
        "rounded sum": (
            {"a": x.round(2), "b": y.round(2), "c": damaged((x + y).round(2), 60.5)},
            "c = a + b",
        ),
    }


@pytest.mark.parametrize("name", formulas())
def test_finds_formulas_in_spite_of_wrong_rows(name: str) -> None:
    columns, text = formulas()[name]
    relations, codes, schema = relations_of(columns)
    described = relations.describe(schema)
    if name == "unit":  # rounding allows slopes that are close
        slope = float(described.pop()[4:-4])
        described.append("c = 1.609 * a" if abs(slope - 1.609) < 1e-3 else "")
    assert described == [text]
    assert (relations.relations[0].failures, relations.relations[0].checked) == (3, ROWS)
    assert int(relations.broken(codes).sum()) == 3


def rule_table() -> dict[str, object]:
    """Return routes with distances, and models with makers. Three distances are wrong."""
    g = np.random.default_rng(1)
    start, end = g.integers(0, 3, ROWS), g.integers(0, 12, ROWS)
    miles = np.random.default_rng(2).permutation(36).reshape(3, 12) * 37 + 90
    model = g.integers(0, 20, ROWS)
    return {
        "start": np.array(["EWR", "JFK", "LGA"])[start],
        "end": np.array([f"d{i}" for i in range(12)])[end],
        "miles": damaged(miles[start, end], 5),
        "maker": np.array([f"m{i % 6}" for i in range(20)])[model],
        "model": np.array([f"t{i}" for i in range(20)])[model],
        "load": g.normal(size=ROWS),
    }


def test_finds_rules_and_notices_changed_cells() -> None:
    relations, codes, schema = relations_of(rule_table())
    assert relations.describe(schema) == [
        "maker is determined by model",
        "miles is determined by start and end",
    ]
    assert [r.failures for r in relations.relations] == [0, 3]
    changed = codes[(~relations.broken(codes).any(0)).nonzero().flatten()[:1]].clone()
    right = float(changed[0, 2])
    changed[0, 2] += 1
    assert relations.broken(changed).flatten().tolist() == [False, True]
    assert float(relations.surprise(changed)) == pytest.approx(math.log((ROWS + 1) / 3.5))
    blame = relations.blamed(changed[0])[0]
    assert blame == (2, right + 1, right, (1,))


@pytest.mark.parametrize("merged", [-1, 2])
def test_leave_one_out_equals_rules_of_the_other_rows(merged: int) -> None:
    g = torch.Generator().manual_seed(0)
    codes = torch.stack([
        torch.randint(0, 5, (60,), generator=g),
        torch.randint(0, 4, (60,), generator=g),
        torch.randint(0, 3, (60,), generator=g),
    ]).T.double()
    codes[torch.rand(60, 3, generator=g) < 0.05] = torch.nan
    terms, target = (Cell(0), Cell(1)), Cell(2, merged)
    rule = Lookup.learn(terms, target, codes)
    rows = codes.tolist()
    for i, row in enumerate(rows):
        for others, result in (
            (rows[:i] + rows[i + 1 :], rule.expected(codes, leave_one_out=True)[i]),
            (rows, rule.expected(codes)[i]),
        ):
            values = Counter(o[2] for o in others if o[:2] == row[:2] and o[2] == o[2])
            value, count = max(values.items(), key=lambda item: item[1], default=(math.nan, 0))
            slow = value if 2 * count > sum(values.values()) and value != merged else math.nan
            slow = math.nan if any(map(math.isnan, row[:2])) else slow
            assert float(result) == pytest.approx(slow, abs=0, nan_ok=True)


def test_finds_parts_of_dates() -> None:
    g = np.random.default_rng(3)
    seconds = g.integers(0, 5 * 10**7, ROWS) + 1_600_000_000
    moment = seconds.astype("datetime64[s]")
    day = moment.astype("datetime64[D]")
    month = day.astype("datetime64[M]").astype(int) % 12
    weekday = (day.astype(int) + 3) % 7  # Monday is 0
    names = np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
    relations, _, schema = relations_of({
        "moment": moment,
        "month": damaged(month + 1, 3),
        "hour": damaged(seconds // 3600 % 24, 1),
        "sunday_first": damaged((weekday + 1) % 7 + 1, 4),
        "name": names[weekday],
        "due": moment + np.timedelta64(3, "D"),
        "load": g.normal(size=ROWS),
    })
    assert set(relations.describe(schema)) == {
        "month is the month of moment",
        "sunday_first is the day of the week of moment + 1",
        "hour is the hour of moment",
        "due = moment + 3 days",
        "name is determined by sunday_first",
    }


@pytest.mark.parametrize(("zone", "found"), [("+03:00", "+03:00"), ("America/New_York",) * 2])
def test_finds_parts_in_another_time_zone(zone: str, found: str) -> None:
    g = np.random.default_rng(4)
    moment = pa.array((g.integers(0, 3 * 10**7, ROWS) + 1_600_000_000).astype("datetime64[s]"))
    utc = moment.cast(pa.timestamp("s", "UTC"))
    local = pa.compute.local_timestamp(moment.cast(pa.timestamp("s", zone)))
    columns = {"moment": utc, "hour": pa.compute.hour(local), "day": pa.compute.day(local)}
    relations, _, schema = relations_of(columns)
    note = f" of moment (time zone {found})"
    assert set(relations.describe(schema)) == {f"hour is the hour{note}", f"day is the day{note}"}
    own, _, schema = relations_of(columns | {"moment": moment.cast(pa.timestamp("s", zone))})
    assert set(own.describe(schema)) == {"hour is the hour of moment", "day is the day of moment"}


@pytest.mark.parametrize("part", ["year", "quarter", "month", "day", "weekday", "hour", "minute"])
def test_calendar_parts_equal_those_of_pyarrow(part: str) -> None:
    seconds = np.random.default_rng(5).integers(-(10**10), 10**10, 5000)
    function = {"weekday": "day_of_week"}.get(part, part)
    truth = getattr(pa.compute, function)(pa.array(seconds.astype("datetime64[s]")))
    ours = calendar_part(torch.from_numpy(seconds).double(), part)  # type: ignore[arg-type]
    assert ours.tolist() == [float(value) for value in truth.to_pylist()]


def test_calendar_parts_of_years_that_pyarrow_gets_wrong() -> None:
    seconds = torch.tensor([1e12]).double()
    days, year = divmod(10**12, 86_400)[0], 1970
    cycles, days = divmod(days, 146_097)  # days of 400 years
    while days >= (length := 365 + (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))):
        year, days = year + 1, days - length
    assert calendar_part(seconds, "year").tolist() == [year + 400 * cycles]


def flights(rows: int = ROWS) -> dict[str, object]:
    """Return flights with times of day as integers and delays over midnight."""
    g = np.random.default_rng(6)
    planned = g.integers(5 * 60, 24 * 60, rows)
    delay = np.where(g.random(rows) < 0.2, g.integers(60, 400, rows), g.integers(-20, 60, rows))
    actual = (planned + delay) % 1440
    day = np.datetime64("2013-01-01") + g.integers(0, 365, rows).astype("timedelta64[D]")
    start = g.integers(0, 3, rows)
    end = g.integers(0, 10, rows)
    moment = day.astype("datetime64[s]") + (planned // 60 * 3600).astype("timedelta64[s]")
    return {
        "month": day.astype("datetime64[M]").astype(int) % 12 + 1,
        "planned": planned // 60 * 100 + planned % 60,
        "actual": actual // 60 * 100 + actual % 60,
        "delay": damaged(delay, 777),
        "start": np.array(["EWR", "JFK", "LGA"])[start],
        "end": np.array([f"d{i}" for i in range(10)])[end],
        "miles": (start * 10 + end) * 17 % 1009 + 100,
        "hour": planned // 60,
        "minute": planned % 60,
        "moment": moment,
    }


def test_finds_times_of_day() -> None:
    relations, codes, schema = relations_of(flights())
    assert set(relations.describe(schema)) == {
        "month is the month of moment",
        "hour is the hour of moment",
        "hour is the hour of planned",
        "minute is the minute of planned",
        "delay = actual - planned (times of day)",
        "miles is determined by start and end",
    }
    row = codes[0].clone()
    row[1] += 1 if row[1] % 100 < 59 else -1  # the planned time is in three relations
    blames = relations.blamed(row)
    assert [(b.column, b.expected) for b in blames] == [(1, float(codes[0, 1]))]
    assert len(blames[0].relations) == 2


def test_wrong_date_is_blamed_for_all_its_parts() -> None:
    relations, codes, _ = relations_of(flights())
    row = codes[0].clone()
    row[9] += 86_400 * 45 + 3600 * (1 if row[7] < 12 else -1)
    (blame,) = relations.blamed(row)
    assert (blame.column, blame.value) == (9, float(row[9]))
    assert math.isnan(blame.expected)
    assert len(blame.relations) == 2


def shuffled(codes: Tensor) -> Tensor:
    """Return rows whose columns are independent."""
    g = torch.Generator().manual_seed(0)
    order = [torch.randperm(len(codes), generator=g) for _ in range(codes.shape[1])]
    return codes.gather(0, torch.stack(order, 1))


def sleep() -> dict[str, object]:
    """Return hours of sleep and the rest of the day."""
    asleep = np.random.default_rng(7).random(200).round(2) * 20
    return {"asleep": asleep.round(1), "awake": (24 - asleep.round(1)).round(1)}


@pytest.mark.parametrize("table", [flights, sleep, rule_table])
def test_repaired_rows_satisfy_all_relations(table: type) -> None:
    relations, codes, _ = relations_of(table())
    rows = shuffled(codes)
    assert bool((relations.broken(rows).double().mean(1) > 0.5).all())
    repaired = relations.repair(rows, torch.Generator().manual_seed(0))
    assert all((r.holds(repaired) == 1).all() for r in relations.relations)
    # Rows that are right stay as they are.
    right = codes[~relations.broken(codes).any(0)]
    assert torch.allclose(relations.repair(right), right, rtol=1e-12)
    gaps = rows.where(
        torch.rand(rows.shape, generator=torch.Generator().manual_seed(1)) > 0.2, torch.nan
    )
    again = relations.repair(gaps)
    assert not relations.broken(again).any()
    assert torch.equal(again.isnan(), gaps.isnan())


def test_key_that_never_occurred_is_replaced_by_the_nearest() -> None:
    columns = rule_table()
    keep = ~((columns["start"] == "JFK") & (columns["end"] == "d3"))  # type: ignore[operator]
    relations, codes, schema = relations_of({k: v[keep] for k, v in columns.items()})  # type: ignore[index]
    starts, ends = (schema.used[j].levels for j in (0, 1))  # type: ignore[union-attr]
    row = codes[:1].clone()
    row[0, 0], row[0, 1] = starts.index("JFK"), ends.index("d3")  # type: ignore[union-attr, arg-type]
    rule = relations.relations[1]
    assert rule.holds(row).tolist() == [-1]
    repaired = relations.repair(row)
    assert rule.holds(repaired).tolist() == [1]
    same_term = (codes[:, 0] == row[0, 0]) | (codes[:, 1] == row[0, 1])
    right = ~relations.broken(codes)[1]
    nearest = (codes[same_term & right][:, 2] - row[0, 2]).abs().min()
    assert torch.equal((repaired[0, 2] - row[0, 2]).abs(), nearest)


def random_column(kind: int, rows: int, g: np.random.Generator) -> np.ndarray:
    """Return a column that is independent of all others."""
    makers = [
        lambda: g.normal(size=rows),
        lambda: g.normal(10, 3, rows).round(1),
        lambda: g.integers(0, 6, rows),
        lambda: g.integers(0, 2, rows),
        lambda: np.where(g.random(rows) < 0.7, 0, g.integers(0, 9, rows)),
        lambda: g.choice(list("abcde"), rows),
        lambda: g.choice(list("abc"), rows, p=[0.9, 0.08, 0.02]),
        lambda: np.array([f"c{i}" for i in g.integers(0, 40, rows)]),
        lambda: g.integers(0, 24, rows) * 100 + g.integers(0, 60, rows),
        lambda: np.datetime64("2020-01-01") + g.integers(0, 700, rows).astype("timedelta64[D]"),
        lambda: np.datetime64("2020-01-01T00") + g.integers(0, 10**7, rows).astype("m8[s]"),
        lambda: g.integers(1, 500, rows) / 100,
    ]
    return np.asarray(makers[kind % len(makers)]())


def test_no_relations_by_chance() -> None:
    for seed in range(200):
        g = np.random.default_rng(seed)
        rows = int(math.exp(g.uniform(math.log(60), math.log(1500))))
        kinds = g.integers(0, 12, g.integers(4, 12)).tolist()
        columns = {f"{j}": random_column(kind, rows, g) for j, kind in enumerate(kinds)}
        relations, _, schema = relations_of(columns)
        assert relations.describe(schema) == []


def test_correlated_columns_have_no_exact_relation() -> None:
    g = np.random.default_rng(0)
    a, b = g.normal(50, 10, ROWS), g.normal(50, 10, ROWS)
    columns = {"a": a.round(1), "b": b.round(1), "c": (a + b + g.normal(size=ROWS)).round(1)}
    kind = np.array(["low", "high"])[(a + g.normal(size=ROWS) > 50).astype(int)]
    year = g.integers(1950, 2020, ROWS)
    columns |= {"kind": kind, "year": year, "next": year + g.integers(0, 2, ROWS)}
    assert relations_of(columns)[0].relations == ()


def test_does_not_depend_on_the_order_of_rows() -> None:
    for table in (flights(), rule_table(), sleep()):
        relations, codes, schema = relations_of(table)
        order = torch.randperm(len(codes), generator=torch.Generator().manual_seed(3))
        assert Relations.fit(codes[order], schema) == relations


def test_implied_relations_are_left_out() -> None:
    g = np.random.default_rng(8)
    a, b = g.integers(0, 900, ROWS), g.integers(0, 900, ROWS)
    kind = g.integers(0, 6, ROWS)
    relations, _, schema = relations_of({
        "a": a,
        "cents": 100 * a,
        "b": b,
        "total": a + b,
        "kind": np.array(list("uvwxyz"))[kind],
        "group": np.array(list("ppqqrr"))[kind],
        "flag": g.integers(0, 2, ROWS),
    })
    assert set(relations.describe(schema)) == {
        "cents = 100 * a",
        "total = a + b",
        "group is determined by kind",
    }


def test_rare_categories_that_were_merged_are_unknown() -> None:
    g = np.random.default_rng(9)
    end = np.minimum(g.geometric(0.03, 5000), 150)
    codes, schema = codes_of({
        "end": np.array([f"d{i}" for i in range(151)])[end],
        "miles": end * 37 % 1009,
        "load": g.normal(size=5000),
    })
    merged = len(schema.used[0].levels) - 1  # type: ignore[union-attr, arg-type]
    relations = Relations.fit(codes, schema)
    assert relations.describe(schema) == ["miles is determined by end"]
    holds = relations.relations[0].holds(codes, leave_one_out=True)
    assert bool((holds[codes[:, 0] == merged] == -1).all())
    assert bool((holds[codes[:, 0] != merged] == 1).all())


def test_rules_claim_nothing_about_keys_whose_values_were_merged() -> None:
    counts = {(0, 1): 3, (0, 5): 9, (1, 2): 9, (1, 5): 2, (2, 5): 7, (3, 4): 1}
    rows = [list(map(float, row)) for row, count in counts.items() for _ in range(count)]
    rule = Lookup.learn((Cell(0),), Cell(1, merged=5), torch.tensor(rows).double())
    new = torch.tensor([[0.0, 2.0], [1.0, 4.0], [1.0, 5.0], [2.0, 1.0], [3.0, 4.0]]).double()
    assert rule.expected(new).nan_to_num(-1).tolist() == [-1, 2, 2, -1, 4]
    assert rule.holds(new).tolist() == [-1, 0, -1, -1, 1]
    # Samples with an unknown key get the key whose value is nearest to their cell.
    keys = rule.with_known_terms(new, set(), torch.Generator().manual_seed(0))[:, 0]
    assert keys.tolist() == [1, 1, 1, 1, 3]


def test_round_trip() -> None:
    relations, codes, _ = relations_of(flights())
    text = json.dumps(to_json(relations), allow_nan=False)
    again = from_json(json.loads(text))
    assert again == relations
    assert torch.equal(again.surprise(codes), relations.surprise(codes))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"steps": [1.0, ', '"steps": ["a", '),
        ('"column": 0', '"column": -1'),
        ('"column": 0', '"column": 99'),
        ("fdsm.tables.relations.Sum", "os.system"),
        ('"coefficients": [1.0, -1.0]', '"coefficients": [1.0]'),
        ('"keys": [', '"keys": [1e30, '),
        ('"failures": 0', '"failures": -1'),
    ],
)
def test_damaged_records_are_refused(old: str, new: str) -> None:
    text = json.dumps(to_json(relations_of(flights())[0]))
    assert old in text
    with pytest.raises(RecordError):
        from_json(json.loads(text.replace(old, new, 1)))


def test_few_rows_and_columns_have_no_relations() -> None:
    codes, schema = codes_of({"a": np.arange(20) % 7, "b": np.arange(20) % 7 + 1})
    relations = Relations.fit(codes, schema)
    assert relations.relations == ()
    assert relations.surprise(codes).tolist() == [0.0] * len(codes)
    assert relations.blamed(codes[0]) == []
    assert torch.equal(relations.repair(codes), codes)


def test_numbers_of_any_size_and_columns_with_few_cells() -> None:
    g = np.random.default_rng(11)
    x = g.normal(size=ROWS)
    few = pa.array(x, mask=g.random(ROWS) < 0.995)
    relations, codes, schema = relations_of({"few": few, "x": x, "tiny": x * 1e-30})
    assert relations.describe(schema) == []  # rounding errors of floats are at least 1e-12
    assert relations.steps == (0.0, 0.0, 0.0)
    relations, codes, schema = relations_of({"x": x, "large": x * 1e30})
    assert relations.describe(schema) == ["large = 1e+30 * x"]
    assert not relations.broken(codes).any()


def test_unit_of_a_column_ignores_few_wrong_cells() -> None:
    cells = torch.arange(1000).double() / 10
    cells[3] = 0.123456
    steps = [find_step(cells), find_step(torch.randn(100).double())]
    assert steps == [0.1, 0.0]


def test_hour_of_a_date_is_replaced_in_repairs() -> None:
    seconds = torch.tensor([[1_600_000_000.0], [1_610_003_599.0]]).double()
    hour = DatePart(0, "hour", "America/New_York")
    moved = hour.invert(seconds, torch.tensor([5.0, 7.0]).double())
    assert moved is not None
    assert hour.values(moved[:, None]).tolist() == [5.0, 7.0]
    assert (
        DatePart(0, "minute").values(moved[:, None]).tolist()
        == DatePart(0, "minute").values(seconds).tolist()
    )
    assert DatePart(0, "month").invert(seconds, hour.values(seconds)) is None
