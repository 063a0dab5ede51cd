"""Which cores the CPU devices use, and how the cores are divided among them."""

import os

import pytest

from core.devices.cpu import CORES_VARIABLE, COUNT_VARIABLE, device_count, divide, shares, usable_cores

CORES = sorted(os.sched_getaffinity(0))


def test_cores_are_divided_contiguously_and_completely():
    assert divide([0, 1, 2, 3, 4, 5, 6], 2) == [(0, 1, 2, 3), (4, 5, 6)]
    assert divide([4, 5, 8], 3) == [(4,), (5,), (8,)]
    assert divide([4, 7], 5) == [(4,), (7,), (4,), (7,), (4,)], "more devices than cores share them"
    assert shares({CORES_VARIABLE: str(CORES[0])}) == [(CORES[0],), (CORES[0],)]
    last_first = [CORES[-1], *CORES[:-1]]
    environ = {CORES_VARIABLE: ",".join(map(str, last_first)), COUNT_VARIABLE: str(len(CORES))}
    assert shares(environ) == [(core,) for core in last_first], "in the order of the setting"


def test_default_is_two_devices_however_many_cores_there_are():
    assert [device_count(None, cores) for cores in (1, 2, 7, 128)] == [2, 2, 2, 2]
    assert [device_count(text, cores) for text, cores in (("3", 7), ("8", 1), ("16", 16))] == [3, 8, 16]


@pytest.mark.parametrize("setting", ["0", "-1", "two", "", "1.5", "100000", "1_0"])
def test_invalid_device_count_is_refused_with_value_and_remedy(setting):
    with pytest.raises(ValueError, match=rf"^{COUNT_VARIABLE}={setting} .* from 1 to 8, .* unset it\.$"):
        device_count(setting, 8)


def test_all_allowed_cores_are_used_unless_some_are_named():
    assert usable_cores(None, {8, 0, 2}) == [0, 2, 8]
    assert usable_cores("2-4,0", range(8)) == [2, 3, 4, 0]
    assert usable_cores("7", range(8)) == [7]


@pytest.mark.parametrize("setting", ["", "8", "0,8", "1,1", "0-2,1", "3-2", "-1", "1-", "one", "0;1", " 1", "٣"])
def test_invalid_cores_are_refused_with_value_and_remedy(setting):
    with pytest.raises(ValueError, match=rf"^{CORES_VARIABLE}={setting} .* as in 2-5 or 1,0, of 0-3,5, or unset it\.$"):
        usable_cores(setting, {0, 1, 2, 3, 5})
