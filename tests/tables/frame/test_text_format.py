"""Tests of the recognition of delimiters, decimal marks and headers."""

import csv
import time

import pytest

from fdsm.tables.frame.text_format import TextFormat, detect_format

ABC = ("a", "b", "c")
FORMATS = {
    "comma": ("a,b\n1,2\n", TextFormat(",", ".", ("a", "b"), 1)),
    "semicolon": ("a;b\n1;2\n", TextFormat(";", ".", ("a", "b"), 1)),
    "tab": ("a\tb\n1\t2\n", TextFormat("\t", ".", ("a", "b"), 1)),
    "pipe": ("a|b\n1|2\n", TextFormat("|", ".", ("a", "b"), 1)),
    "spaces": ("a   b\n1.5  2\n 3   4\n", TextFormat(" ", ".", ("a", "b"), 1)),
    "spaces without a header": ("0.5 2 1\n 3 4 5\n", TextFormat(" ", ".", ("0", "1", "2"), 0)),
    "no header": ("1,2\n3,4\n", TextFormat(",", ".", ("0", "1"), 0)),
    "numbers of columns": ("0,1\n0.5,1\n1,2\n", TextFormat(",", ".", ("0", "1"), 1)),
    "numbers and an index": (",0,1\n0,1,2\n", TextFormat(",", ".", ("unnamed 0", "0", "1"), 1)),
    "delimiter after each row": ("a,b\n1,2,\n3,4,\n", TextFormat(",", ".", ("a", "b", "2"), 1)),
    "title": ("Plants\n\na;b\n1,5;2\n2,5;4\n", TextFormat(";", ",", ("a", "b"), 3)),
    "two titles": ("Plants, 2024\nby me\na\tb\tc\n1\t2\t3\n", TextFormat("\t", ".", ABC, 3)),
    "separator for Excel": ("sep=;\na;b\n1;2\n3;4\n", TextFormat(";", ".", ("a", "b"), 2)),
    "units": ("a,b\nm,kg\n1,2\n3,4\n", TextFormat(",", ".", ("a", "b"), 1)),
    "one column": ("a\n1\n", TextFormat(",", ".", ("a",), 1)),
    "one number": ("3.5", TextFormat(",", ".", ("0",), 0)),
    "sentences": ("note\ngood work\nbad work\n", TextFormat(",", ".", ("note",), 1)),
    "decimal commas": ("a;b\n1,5;2\n-0,25;1e3\n", TextFormat(";", ",", ("a", "b"), 1)),
    "decimal commas without a header": ("1,5;2,7\n", TextFormat(";", ",", ("0", "1"), 0)),
    "decimal commas with tabs": ("1,5\t2,7\n", TextFormat("\t", ",", ("0", "1"), 0)),
    "quoted decimal commas": ('a,b\n"1,5",2\n', TextFormat(",", ",", ("a", "b"), 1)),
    "three decimals": ("a;b\n1,234;2\n", TextFormat(";", ",", ("a", "b"), 1)),
    "quoted thousands": ('a,b\n"1,234",2\n', TextFormat(",", ".", ("a", "b"), 1)),
    "millions": ("a;b\n1,234,567;2\n1,234;3\n", TextFormat(";", ".", ("a", "b"), 1)),
    "more points than commas": ("a;b\n1.5;2.5\n1,5;2\n", TextFormat(";", ".", ("a", "b"), 1)),
    "comment": ("# by hand\n\n# twice\na,b\n1,2\n", TextFormat(",", ".", ("a", "b"), 4)),
    "header of numpy.savetxt": ("# a,b\n1,2\n", TextFormat(",", ".", ("a", "b"), 1)),
    "header of numpy.savetxt with spaces": ("# a b\n1 2\n", TextFormat(" ", ".", ("a", "b"), 1)),
    "a column called #": ("#,b\n1,2\n", TextFormat(",", ".", ("#", "b"), 1)),
    "empty lines": ("\n\na,b\n\n1,2\n", TextFormat(",", ".", ("a", "b"), 3)),
    "carriage returns": ("a,b\r1,2\r", TextFormat(",", ".", ("a", "b"), 1)),
    "index without a name": (",x\n0,1.5\n1,2.5\n", TextFormat(",", ".", ("0", "x"), 1)),
    "R": ("x y\nr1 1 2\nr2 3 4\n", TextFormat(" ", ".", ("0", "x", "y"), 1)),
    "line break in a name": ('"a\nb",c\n1,2\n', TextFormat(",", ".", ("a\nb", "c"), 2)),
    "delimiter in a name": ('"a;b",c\n1,2\n', TextFormat(",", ".", ("a;b", "c"), 1)),
    "semicolons in cells": ("a,b\nx;y,2\nz,3\n", TextFormat(",", ".", ("a", "b"), 1)),
    "missing first row": ("1,NA,3\n1,2,3\n", TextFormat(",", ".", ("0", "1", "2"), 0)),
    "text below names": ("a,kind\n1,x\n2,x\n", TextFormat(",", ".", ("a", "kind"), 1)),
    "only text": ("hue,fruit\nred,apple\nblue,plum\n", TextFormat(",", ".", ("hue", "fruit"), 1)),
    "only text without a header": (
        "red,apple\nblue,plum\nred,plum\n", TextFormat(",", ".", ("0", "1"), 0),
    ),
    "dates without a header": ("2024-01-02,x\n2024-1-3,y\n", TextFormat(",", ".", ("0", "1"), 0)),
    "a year among the names": (
        "city,pop,2020\nx,1,2\ny,3,4\n", TextFormat(",", ".", ("0", "1", "2"), 0),
    ),
    "numbers among names": ("a,b,3\n1,2,5\n3,4,6\n", TextFormat(",", ".", ("a", "b", "3"), 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_the_format_is_recognized(name: str) -> None:
    text, expected = FORMATS[name]
    assert detect_format(text) == expected


def test_known_names_are_a_header_even_if_the_values_are_text() -> None:
    text = "red,apple\nblue,plum\nred,plum\n"
    assert detect_format(text, {"red", "other"}).skip == 1
    assert detect_format(text, {"color"}).skip == 0


def test_known_names_that_are_numbers_may_be_values() -> None:
    assert detect_format("1 2 3\n4 5 6\n", ("0", "1", "2")).skip == 0
    assert detect_format("2020,2021\n4,5\n", ("2020", "2021", "2022")).skip == 1
    assert detect_format("2020,7\n4,5\n", ("2020", "2021", "2022")).skip == 0


@pytest.mark.parametrize("cell", ["x" * 2**20, '"' + "x y\n" * 2**18 + '"'])
def test_cells_may_have_a_megabyte(cell: str) -> None:
    limit = csv.field_size_limit()
    assert detect_format(f"a,b\n{cell},2\n") == TextFormat(",", ".", ("a", "b"), 1)
    assert csv.field_size_limit() == limit


def test_integers_in_the_first_row_are_values_without_fractions_below() -> None:
    assert detect_format("0,1\n1,0\n0,1\n").skip == 0
    assert detect_format("0,1,3\n0.5,1,2\n").skip == 0


def test_the_time_for_titles_is_linear_in_the_number_of_columns() -> None:
    row = ",".join(["1.5"] * 5000) + "\n"
    start = time.process_time()
    assert detect_format(row * 30).skip == 0
    assert time.process_time() - start < 3
