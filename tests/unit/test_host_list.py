"""The list of hosts: its file, the names, and addresses that would be an option or a command."""

import json
import stat
from threading import Thread

import pytest

from core.devices.device import full_name, split_name
from core.errors import RunError
from core.hosts import host_list
from core.hosts.host_list import Host, HostList, hosts_file, load

LAB = Host(name="lab", address="anna@lab.example.org")
NODE = Host(name="node-2", address="node", command="~/trainyard/.venv/bin/trainyard")


def write(text: str) -> None:
    hosts_file().parent.mkdir(parents=True, exist_ok=True)
    hosts_file().write_text(text)


def test_hosts_are_kept_in_their_order_in_a_private_file():
    assert load() == HostList()
    with pytest.raises(ValueError, match=r"There is no host 'lab'\. None has been added"):
        host_list.remove("lab")
    for host in (LAB, NODE):
        host_list.add(host)
    assert load() == HostList(hosts=(LAB, NODE))
    assert stat.S_IMODE(hosts_file().stat().st_mode) == 0o600
    assert host_list.remove("LAB") == LAB
    assert load().hosts == (NODE,)
    with pytest.raises(ValueError, match=r"There is no host 'x'\. Choose one of: node-2\."):
        host_list.remove("x")


def test_name_is_taken_whatever_its_case_and_two_names_for_one_machine_are_two_hosts():
    host_list.add(LAB)
    with pytest.raises(ValueError, match=r"There is a host lab already: anna@lab\.example\.org\..* hosts remove lab"):
        host_list.add(Host(name="Lab", address="other"))
    host_list.add(Host(name="lab-2", address=LAB.address))
    assert [each.name for each in load().hosts] == ["lab", "lab-2"]


NEWER = json.dumps({"version": 2, "hosts": [], "clusters": []})


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "\xff", "[" * 10_000, "null", "{}", '{"version": 1}', '{"hosts": []}', NEWER]
)
def test_file_that_is_damaged_or_newer_is_told_and_not_overwritten(text):
    write(text)
    assert ("of a newer version of Trainyard" if text == NEWER else str(hosts_file())) in load().problem
    for change in (lambda: host_list.add(LAB), lambda: host_list.remove("lab")):
        words = "newer version" if text == NEWER else r"are damaged\. .*Nothing was changed\."
        with pytest.raises(RunError, match=words):
            change()
    assert hosts_file().read_text() == text


@pytest.mark.parametrize(
    "row",
    [7, [], {}, {"name": "x"}, {"name": "x", "address": 3}, {"name": "x", "address": "a", "port": 3},
     {"name": "lab", "address": "twice"}, {"name": "x", "address": "-oProxyCommand=reboot"}],
)
def test_host_that_makes_no_sense_is_counted_and_the_others_are_used(row):
    rows = [{"name": LAB.name, "address": LAB.address, "command": LAB.command}, row]
    write(json.dumps({"version": 1, "hosts": rows}))
    assert load().hosts == (LAB,)
    assert "make no sense: 2, counted from 1" in load().problem
    with pytest.raises(RunError, match=r"Nothing was changed\."):
        host_list.add(NODE)


def test_hosts_that_are_added_at_once_are_all_kept():
    threads = [Thread(target=host_list.add, args=(Host(name=f"n{i}", address="a"),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.name for each in load().hosts) == [f"n{i}" for i in range(8)]


@pytest.mark.parametrize(
    "address",
    ["lab", "anna@lab", "anna@lab.example.org", "ssh://anna@lab:2222", "10.0.0.7", "anna@10.0.0.7", "fe80::1%eth0",
     "anna@fe80::1", "ssh://[fe80::1]:22/", "anna.b-c@ad.example@lab", "_gateway", "anna+x@lab_2"],
)
def test_address_is_accepted(address):
    assert Host(name="x", address=address).address == address


@pytest.mark.parametrize(
    "address",
    ["", "-oProxyCommand=reboot", "-", "--", "anna@-oProxyCommand=reboot", "-l@lab", "ssh://-oX=y", "ssh://a@-oX=y",
     "lab;reboot", "lab reboot", "$(reboot)", "`reboot`@lab", "a'b", 'a"b', "lab\n", "\nlab", "lab|x", "la\tb", "a@",
     "@lab", "http://lab", "a" * 300],
)
def test_address_that_is_an_option_or_a_command_is_refused(address):
    with pytest.raises(ValueError, match="is no address of a machine"):
        Host(name="x", address=address)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"address": "anna@lab:2222"}, "Write it as ssh://anna@lab:2222, or"),
        *(({"name": name}, "A host cannot be named")
          for name in ("", "a/b", "a:b", "a,b", "-a", ".a", "_a", "a b", "a\n", "é/", "a" * 64)),
        *(({"command": command}, "must be one line") for command in ("", " ", "a\nb", "a\0b", "a" * 2000)),
    ],
)
def test_host_that_cannot_be_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        Host(**{"name": "x", "address": "lab", **given})


@pytest.mark.parametrize(
    ("address", "name"),
    [("anna@lab.example.org", "lab"), ("lab", "lab"), ("anna@10.0.0.7", "10.0.0.7"), ("ssh://anna@lab:2222", "lab"),
     ("ssh://anna@[fe80::1]:22/", "fe80-1"), ("anna@fe80::1", "fe80-1")],
)
def test_host_is_named_after_its_address(address, name):
    assert host_list.carrier_of(address).default_name == name
    assert Host(name=name, address=address).name == name


def test_device_of_a_host_is_told_from_a_device_here():
    for device in ("cpu:0", "GPU-8a56", "MIG-8a56", "gpu:0", "gpu:0:mig:1", "MIG-GPU-8a56/1/0"):
        assert split_name(full_name("lab", device)) == ("lab", device)
        assert split_name(device) is None
    assert split_name("lab/results") is None
