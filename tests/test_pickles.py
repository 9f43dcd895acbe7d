from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy._core.multiarray import _reconstruct

from glasshouse.errors import DataError
from glasshouse.pickles import read_arrays

VALUE = {b"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "texts": ["a", None, 2.5], "floats": np.eye(2)}


class Call:
    """Pickles to the call of a function, with a state for what it returns."""

    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


@pytest.fixture
def file(tmp_path):
    return tmp_path / "batch"


@pytest.mark.parametrize("protocol", range(5))
def test_arrays_texts_and_numbers_come_back(file, protocol):
    file.write_bytes(pickle.dumps(VALUE, protocol=protocol))
    found = read_arrays(file)
    assert found["texts"] == VALUE["texts"]
    for key in (b"data", "floats"):
        assert found[key].dtype == VALUE[key].dtype
        assert np.array_equal(found[key], VALUE[key])


def test_texts_of_python_2_are_bytes(file):
    file.write_bytes(b"(dp0\nS'labels'\np1\n(lp2\nI3\naI5\nasS'caf\\xc3'\np3\nNs.")
    assert read_arrays(file) == {b"labels": [3, 5], b"caf\xc3": None}


def test_arrays_in_fortran_order_come_back(file):
    array = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    file.write_bytes(pickle.dumps(array, protocol=2))
    assert np.array_equal(read_arrays(file), array)


HOSTILE = {
    "os.system": lambda mark: Call(os.system, (f"touch {mark}",)),
    "eval": lambda mark: Call(eval, (f"open({str(mark)!r}, 'w')",)),
    "a class": lambda mark: Call(Path, (str(mark),)),
    "getattr": lambda mark: Call(getattr, (str, "format")),
    "inside a dictionary": lambda mark: {"data": [Call(os.system, (f"touch {mark}",))]},
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_more_than_arrays_is_refused_by_name_and_not_run(file, tmp_path, make, protocol):
    file.write_bytes(pickle.dumps(make(tmp_path / "mark"), protocol=protocol))
    with pytest.raises(DataError, match=r"^batch asks for .*hostile"):
        read_arrays(file)
    assert not (tmp_path / "mark").exists()


def test_the_hostile_pickle_would_have_run(file, tmp_path):
    file.write_bytes(pickle.dumps(HOSTILE["eval"](tmp_path / "mark")))
    pickle.loads(file.read_bytes()).close()
    assert (tmp_path / "mark").exists()


def array(dtype, flags, shape, raw):
    kind = Call(np.dtype, (dtype, False, True), (3, "|", None, None, None, -1, -1, flags))
    return pickle.dumps(Call(_reconstruct, (np.ndarray, (0,), b"b"), (1, shape, kind, False, raw)), protocol=2)


CRASHING = {
    "fewer objects than the shape says": array("O8", 63, (100_000,), [None]),
    "numbers as the addresses of objects": array("O8", 0, (8,), b"\x41" * 64),
    "bytes that claim to be objects": array("u1", 1, (64,), b"\x41" * 64),
}


@pytest.mark.parametrize("content", CRASHING.values(), ids=CRASHING)
def test_arrays_that_would_crash_numpy_do_no_harm(forked, file, content):
    file.write_bytes(content)
    program = (
        "import sys, pathlib, glasshouse.errors, glasshouse.pickles\n"
        "try:\n    found = glasshouse.pickles.read_arrays(pathlib.Path(sys.argv[1]))\n    repr(found)\n"
        "except glasshouse.errors.DataError:\n    pass\n"
    )
    done = forked(program, str(file))
    assert (done.returncode, done.stderr) == (0, "")


MALFORMED = {
    "empty": b"",
    "text": b"hello",
    "truncated": pickle.dumps(VALUE, protocol=2)[:-20],
    "nothing on the stack": b".",
    "an exabyte of bytes": b"\x80\x04\x8e" + b"\x00" * 7 + b"\x40",
    "more bytes than can be counted": b"\x80\x04\x8e" + b"\xff" * 8,
    "an array of petabytes": pickle.dumps(Call(np.ndarray, ((10**15,),)), protocol=2),
    "a dtype that is no dtype": pickle.dumps(Call(np.dtype, ("i4,(",)), protocol=2),
    "a persistent id": b"Pkey\n.",
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_pickle_is_refused_by_name(file, content):
    file.write_bytes(content)
    with pytest.raises(DataError, match="batch"):
        read_arrays(file)


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: None], ids=["directory", "missing"])
def test_what_is_no_file_is_refused_by_name(file, make):
    make(file)
    with pytest.raises(DataError, match="batch cannot be read"):
        read_arrays(file)


def outcome(path, content):
    path.write_bytes(content)
    try:
        return read_arrays(path)
    except DataError as error:
        return error


@given(content=st.binary(max_size=100))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_random_bytes_give_a_value_or_a_data_error(tmp_path_factory, content):
    found = outcome(tmp_path_factory.getbasetemp() / "random_pickle", content)
    assert not isinstance(found, DataError) or "random_pickle" in str(found)


@given(cut=st.integers(1, len(pickle.dumps(VALUE, protocol=2)) - 1))
@example(cut=1)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_every_truncated_pickle_is_refused(tmp_path_factory, cut):
    content = pickle.dumps(VALUE, protocol=2)
    found = outcome(tmp_path_factory.getbasetemp() / "cut_pickle", content[:-cut])
    assert isinstance(found, DataError)
    assert "cut_pickle" in str(found)
