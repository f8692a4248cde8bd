#!/usr/bin/env python3
"""tests/reference/make_csv_shapes.py: writes csv_shapes.json, CSV files as people have them with the
cells that pandas reads, for tests/lua/data/csv_shapes_test.lua. Needs pandas:

    python3 tests/reference/make_csv_shapes.py tests/reference/values/csv_shapes.json
"""

import io
import json
import math
import sys
import warnings

import pandas as pd

warnings.simplefilter("ignore")

# What, the text (or bytes), the options of pandas, and those of ours where they have other names.
SHAPES = [
    ("numbers and names", "name,age,height\nAnn,34,1.68\nBob,58,1.91\n", {}),
    ("whole columns", "a,b\n1,-2\n3,4\n", {}),
    ("time stamps", "t,id\n1700000001,123456789\n1700000002,123456790\n", {}),
    ("numbers of 18 digits", "id\n123456789012345678\n-987654321098765432\n", {}),
    ("the ends of int64", "x\n9223372036854775807\n-9223372036854775808\n", {}),
    ("more than int64 holds", "x\n9223372036854775808\n1\n", {}),
    ("numbers of 30 digits", "x\n123456789012345678901234567890\n5\n", {}),
    ("leading zeros", "zip,x\n00501,007\n94105,010\n", {}),
    ("leading zeros as text", "zip,x\n00501,007\n94105,010\n", {"dtype": {"zip": str}}),
    ("signs", "x,y\n+5,-5\n-0,+0.5\n", {}),
    ("decimals", "x\n1.\n.5\n-.25\n0.1\n", {}),
    ("exponents", "x\n1e5\n1E+05\n-2.5e-3\n6.02e23\n", {}),
    ("very large and very small", "x\n1e300\n-1e-300\n1\n", {}),
    ("digits that float32 does not hold", "x\n123456789.25\n0.5\n", {}),
    ("missing whole numbers", "id,n\n1,5\n2,\n3,7\n", {}),
    ("missing time stamps", "t\n1700000001\nNA\n1700000003\n", {}),
    ("infinities", "x\ninf\n-inf\nInfinity\n+Inf\n1.5\n", {}),
    ("words for what is missing",
     "x,y\n1,a\nNA,b\nN/A,c\nn/a,d\nNaN,e\nnan,f\nNULL,g\nnull,h\nNone,i\n#N/A,j\n<NA>,k\n-NaN,l\n#NA,m\n"
     "-1.#IND,n\n1.#QNAN,o\n#N/A N/A,p\n", {}),
    ("missing texts", "a,b\nx,1\n,2\nNA,3\n", {}),
    ("a column of nothing", "a,b,c\n1,,x\n2,,y\n", {}),
    ("words that only look missing", "a\n NA\nNone \nn.a.\n-\n", {}),
    ("own words for what is missing", "a,b\n1,x\n-999,?\n3,y\n", {"na_values": [-999, "?"]}),
    ("words by column", "a,b\n1,x\n-1,-1\n3,y\n", {"na_values": {"a": ["-1"]}}),
    ("no usual words", "a,b\nNA,1\nx,2\n", {"keep_default_na": False}),
    ("true and false", "a,b,c\nTrue,true,TRUE\nFalse,false,FALSE\n", {}),
    ("true and false with missing ones", "a\nTrue\n\nNA\nFalse\n", {}),
    ("own words for true and false", "a\nyes\nno\nyes\n", {"true_values": ["yes"], "false_values": ["no"]}),
    ("numbers and words", "x\n1\n2.5\nlow\n4\n", {}),
    ("words late in a column of numbers", "x\n" + "".join(f"{i}\n" for i in range(40)) + "n.d.\n", {}),
    ("true among numbers", "x\n1\nTrue\n0\n", {}),
    ("what is no number", "a,b,c,d\n0x10,1_000,1e,--1\n0x11,2_000,2e,--2\n", {}),
    ("quotes around all", '"a","b","c"\n"1","2.5","x"\n"3","4.5","y"\n', {}),
    ("separators in quotes", 'a,b\n"Lakes, west",1\n"x,y,z",2\n', {}),
    ("doubled quotes", 'a\n"say ""hi"""\n""""\n"a ""b"" c"\n', {}),
    ("line ends in quotes", 'a,b\n"two\nlines",1\n"three\r\nor\rmore",2\n', {}),
    ("quotes within a field", 'a,b\n5" pipe,1\nit\'s,2\n', {}),
    ("text behind a quote", 'a,b\n"x"y,1\n"1"2,3\n', {}),
    ("empty quotes", 'a,b\n"",1\n"x",""\n', {}),
    ("a column of empty quotes", 'a\n""\n"1"\n', {}),
    ("single quotes", "a,b\n'x,y',1\n'it''s',2\n", {"quotechar": "'"}),
    ("no quotes at all", 'a,b\n"x,1\ny",2\n', {"quoting": 3}),
    ("backslashes", 'a,b\nx\\,y,1\n"say \\"hi\\"",2\n', {"escapechar": "\\"}),
    ("semicolons and decimal commas", "a;b\n1,5;x\n-2,25;y\n", {"sep": ";", "decimal": ","}),
    ("points between thousands", "a;b\n1.234,5;1\n1.234.567,25;2\n",
     {"sep": ";", "decimal": ",", "thousands": "."}),
    ("commas between thousands", 'a,b\n"1,234",1\n"12,345,678",2\n', {"thousands": ","}),
    ("tabs", "a\tb\tc\n1\t\tx y\n2\t5\tz\n", {"sep": "\t"}),
    ("bars", "a|b\n1|x,y\n2|z\n", {"sep": "|"}),
    ("runs of blanks", "  a   b\n 1  2.5\n3    4 \n\t5 6\n", {"sep": r"\s+"}),
    ("runs of blanks and quotes", 'a b\n1 "x y"\n2 z\n', {"sep": r"\s+"}),
    ("single blanks", "a b\n1 x\n2 y\n", {"sep": " "}),
    ("spaces behind commas", "a, b, c\n1, x, 2.5\n2, y, 3.5\n", {}),
    ("spaces behind commas, left out", 'a, b, c\n1, "x, z", 2.5\n2, y, 3.5\n', {"skipinitialspace": True}),
    ("spaces around texts", "s,x\nKansas , 1\n Ohio,2 \n", {}),
    ("a field of one space", "a,b\n1, \n2,3\n", {}),
    ("line ends of Windows", "a,b\r\n1,x\r\n2,y\r\n", {}),
    ("line ends of old Macs", "a,b\r1,x\r2,y\r", {}),
    ("no last line end", "a,b\n1,2\n3,4", {}),
    ("a mark of UTF-8", "\ufeffa,b\n1,2\n", {}),
    ("a mark of UTF-8 and quotes", '\ufeff"a","b"\n1,2\n', {}),
    ("letters of many kinds", "naïve,日本\nÄpfel,1\n北京,2\n😀,3\n", {}),
    ("Latin-1", "stadt,x\nKöln,1\nZürich,2\n".encode("latin-1"), {"encoding": "latin-1"}),
    ("Windows' letters", "a,b\n“x”,1\n5 €,2\n".encode("cp1252"), {"encoding": "cp1252"}),
    ("UTF-16", "a\tb\nKöln\t1\n".encode("utf-16"), {"encoding": "utf-16", "sep": "\t"}),
    ("blank lines", "\n\na,b\n\n1,2\n   \n3,4\n\n\n", {}),
    ("blank lines that count", "a\n1\n\n3\n", {"skip_blank_lines": False}),
    ("lines of separators", "a,b,c\n1,2,3\n,,\n4,5,6\n", {}),
    ("short lines", "a,b,c\n1,2,3\n4,5\n6\n", {}),
    ("a short first line", "a,b,c\n1\n2,3,x\n", {}),
    ("long lines, left out", "a,b\n1,2\n3,4,5\n6,7\n", {"on_bad_lines": "skip"}),
    ("comments", "# made by hand\na,b\n1,2 # first\n#3,4\n5,6\n", {"comment": "#"}),
    ("a comment in place of a field", "a,b\n1,#x\n3,4\n", {"comment": "#"}),
    ("a header that begins with #", "#id,x\n1,2\n3,4\n", {}),
    ("lines in front of the header", "Report of 2020\nby us\na,b\n1,2\n", {"skiprows": 2}),
    ("a header in the third line", "x\ny,z\na,b\n1,2\n", {"header": 2}),
    ("chosen lines left out", "a,b\n(unit),(m)\n1,2\n3,4\n", {"skiprows": [1]}),
    ("lines behind the rows", "a,b\n1,2\n3,4\nTotal,6\n", {"skipfooter": 1, "engine": "python"}),
    ("the first rows", "a,b\n1,2\n3,4\n5,x\n", {"nrows": 2}),
    ("no header", "1,x\n2,y\n", {"header": None}),
    ("own names", "1,x\n2,y\n", {"names": ["n", "s"]}),
    ("own names in place of a header", "a,b\n1,x\n", {"names": ["n", "s"], "header": 0}),
    ("more names than fields", "1,2\n3\n", {"names": ["x", "y", "z"]}),
    ("two lines of header", "a,b\nx,y\n1,2\n3,4\n", {"header": [0, 1]}),
    ("the same name twice", "a,a,b,a\n1,2,3,4\n", {}),
    ("the same name twice and once as a.1", "a,a.1,a\n1,2,3\n", {}),
    ("columns without a name", ",a,,b\n0,1,2,3\n1,4,5,6\n", {}),
    ("a header alone", "a,b\n", {}),
    ("one column", "x\n1\n2\n", {}),
    ("one row", "a,b,c\n1,2.5,x\n", {}),
    ("rows with names, as R writes them", "a,b\nr1,1,2.5\nr2,3,4.5\n", {}),
    ("numbered rows, as R writes them", '"","x","y"\n"1",5,"u"\n"2",6,"v"\n', {}),
    ("an index column", "id,a\nk1,1\nk2,2\n", {"index_col": 0}),
    ("an index column by name", "a,id\n1,k1\n2,k2\n", {"index_col": "id"}),
    ("a separator at the end of each line", "a,b,\n1,2,\n3,4,\n", {}),
    ("a separator at the end of each row", "a,b\n1,2,\n3,4,\n", {"index_col": False}),
    ("some columns by name", "a,b,c\n1,x,2\n3,y,4\n", {"usecols": ["c", "a"]}),
    ("some columns by place", "a,b,c\n1,x,2\n3,y,4\n", {"usecols": [1, 2]}),
    ("dates", "day,x\n2020-01-31,1\n1969-12-31,2\n,3\n", {"parse_dates": ["day"]}),
    ("times", "t\n2020-01-31 12:30:00\n2020-02-29 23:59:59\n", {"parse_dates": ["t"]}),
    ("times with a zone", "t\n2020-01-31T12:30:00Z\n2020-02-29T23:59:59Z\n", {"parse_dates": ["t"]}),
    ("fractions of seconds", "t\n2020-01-31 12:30:00.250\n2020-02-29 23:59:59.500\n", {"parse_dates": ["t"]}),
    ("American dates", "d\n01/31/2020\n02/03/2020\n", {"parse_dates": ["d"]}),
    ("European dates", "d\n31/01/2020\n02/03/2020\n", {"parse_dates": ["d"], "dayfirst": True}),
    ("days that only come first", "d\n02/03/2020\n02/04/2020\n", {"parse_dates": ["d"], "dayfirst": True}),
    ("dates without marks", "d\n20200131\n20200229\n", {"parse_dates": ["d"]}),
    ("names of months", "d\n31-Jan-2020\n01-Feb-2020\n", {"parse_dates": ["d"]}),
    ("a format of dates", "d\n2020.31.01\n2021.01.12\n", {"parse_dates": ["d"], "date_format": "%Y.%d.%m"}),
    ("money, shares and phone numbers", "a,b,c\n$5,50%,+41 44 123\n$6.50,5%,+1-202-555\n", {}),
    ("lists in fields", 'a,b\n"[1, 2]","{""k"": 1}"\n[],{}\n', {}),
    ("many columns", ",".join(f"c{i}" for i in range(60)) + "\n" + ",".join(str(i * 0.5) for i in range(60)) + "\n", {}),
    ("a very long field", "a,b\n" + "x" * 3000 + ",1\n", {}),
]


def ours(options):
    """pandas' options as those of data.read_table, which counts from 1."""
    out = {}
    for name, value in options.items():
        if name == "header":
            value = False if value is None else [v + 1 for v in value] if isinstance(value, list) else value + 1
        elif name in ("usecols", "skiprows") and isinstance(value, list):
            value = [v + 1 if isinstance(v, int) else v for v in value]
        elif name == "index_col" and isinstance(value, int) and value is not False:
            value = value + 1
        elif name == "dtype":
            name, value = "types", {column: "text" for column in value}
        elif name == "engine":
            continue
        out[name] = value
    return out


def cell(value):
    if value is None or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def column(series):
    """The kind and the cells of a column; null is what is missing."""
    kind, values = str(series.dtype), [cell(v) for v in series.tolist()]
    if kind.startswith("datetime"):
        return "date", [None if v is None else v.timestamp() for v in values]
    if kind == "int64" or kind == "bool" or kind == "float64":
        # Integers as texts: JSON's numbers need not hold them.
        return kind, [str(v) if kind == "int64" else v for v in values]
    return "text", [None if v is None else str(v) for v in values]


def table(frame):
    names = ["_".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in frame.columns]
    if list(frame.columns) == list(range(len(names))):
        names = [str(i + 1) for i in range(len(names))]
    columns = [column(frame.iloc[:, i]) for i in range(len(names))]
    return {"names": names, "kinds": [c[0] for c in columns], "cells": [c[1] for c in columns]}


def main(path):
    out = []
    for what, text, options in SHAPES:
        data = text if isinstance(text, bytes) else text.encode()
        arguments = dict(options)
        if arguments.get("engine") != "python":
            arguments.update(low_memory=False, float_precision="round_trip")
        frame = pd.read_csv(io.BytesIO(data), **arguments)
        shape = {"what": what, "bytes": data.hex(), "options": ours(options), "rows": len(frame), **table(frame)}
        if not isinstance(frame.index, pd.RangeIndex):
            shape["index"] = table(frame.index.to_frame(index=False))["cells"]
        out.append(shape)
    with open(path, "w", encoding="ascii") as file:
        file.write("[\n" + ",\n".join(json.dumps(shape) for shape in out) + "\n]\n")
    print(len(out), "shapes")


main(sys.argv[1])
