"""Tests of the recognition of delimiters, decimal marks and headers."""

import csv

import pytest

from fdsm.data.tables.text_format import TextFormat, detect_format

FORMATS = {
    "comma": ("a,b\n1,2\n", TextFormat(",", ".", ("a", "b"), 1)),
    "semicolon": ("a;b\n1;2\n", TextFormat(";", ".", ("a", "b"), 1)),
    "tab": ("a\tb\n1\t2\n", TextFormat("\t", ".", ("a", "b"), 1)),
    "pipe": ("a|b\n1|2\n", TextFormat("|", ".", ("a", "b"), 1)),
    "spaces": ("a   b\n1.5  2\n 3   4\n", TextFormat(" ", ".", ("a", "b"), 1)),
    "spaces without a header": ("0.5 2 1\n 3 4 5\n", TextFormat(" ", ".", ("0", "1", "2"), 0)),
    "no header": ("1,2\n3,4\n", TextFormat(",", ".", ("0", "1"), 0)),
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
    "only text": ("color,fruit\nred,apple\nblue,plum\n", TextFormat(",", ".", ("color", "fruit"), 1)),
    "only text without a header": (
        "red,apple\nblue,plum\nred,plum\n", TextFormat(",", ".", ("0", "1"), 0),
    ),
    "dates without a header": ("2024-01-02,x\n2024-01-03,y\n", TextFormat(",", ".", ("0", "1"), 0)),
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


def test_an_open_quote_of_many_characters_raises() -> None:
    with pytest.raises(csv.Error):
        detect_format('a,b\n1,"' + "x" * 200_000)
