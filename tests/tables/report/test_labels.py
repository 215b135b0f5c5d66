"""Labels of plots are short and different."""

from fdsm.tables.report.labels import distinct_labels, number_legend, shorten


def test_short_names_and_different_starts_or_ends_are_kept() -> None:
    names = ["a", "volatile acidity in vinegar", "fixed acidity in vinegar"]
    assert distinct_labels(names) == ["a", "volatile…vinegar", "fixed ac…vinegar"]


def test_long_names_stay_different() -> None:
    quantities = ("mean radius", "mean area", "radius error", "worst concave points")
    names = [f"measurement of the {name} of the nuclei (arbitrary units)" for name in quantities]
    labels = distinct_labels([*names, "diagnosis"])
    assert labels == ["mean radius", "mean area", "radius error", "worst co… points", "diagnosis"]


def test_a_name_without_a_part_of_its_own_is_numbered() -> None:
    long = "temperature of the engine of the second car"
    labels = distinct_labels([long, long.replace("of the engine of", "of the small engine of")])
    assert len(set(labels)) == 2
    assert all(labels)


def test_names_that_look_the_same_get_numbers_and_a_legend() -> None:
    names = [f"{'a' * 20}{middle}{'b' * 20}" for middle in "xyz"]
    labels = distinct_labels(["c", *names])
    assert [label[:3] for label in labels] == ["c", "2: ", "3: ", "4: "]
    assert max(map(len, labels)) <= 16
    legend = number_legend(["c", *names], labels)
    assert legend == "; ".join(f"{number}: {name}" for number, name in enumerate(names, 2))
    assert number_legend(["1: c"], ["1: c"]) == ""


def test_characters_that_cannot_be_drawn_are_replaced() -> None:
    assert shorten("a\x00\x1b\ud800b") == "a\N{REPLACEMENT CHARACTER}\ufffd\ufffdb"
    assert distinct_labels([""]) == ["1: "]
