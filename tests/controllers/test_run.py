"""Controllers are turned on and off as kube-controller-manager has it."""

from __future__ import annotations

import pytest

from moorage.controllers.run import BY_NAME, ROOT_CA, UnknownController, selected

ALL = {*BY_NAME, ROOT_CA}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("*", ALL),
        ("", set()),
        ("taint-eviction-controller", {"taint-eviction-controller"}),
        ("taint-eviction,device-taint-eviction", {"taint-eviction-controller", "device-taint-eviction-controller"}),
        ("*,-job,-cronjob-controller", ALL - {"job-controller", "cronjob-controller"}),
        ("-job,*", ALL - {"job-controller"}),
        ("job,-job", {"job-controller"}),
        ("-job,job", set()),
        ("podgc,nodelifecycle", {"pod-garbage-collector-controller", "node-lifecycle-controller"}),
        ("*,-root-ca-cert-publisher", ALL - {ROOT_CA}),
        ("-deployment", set()),
    ],
)
def test_controllers_are_selected_by_name(text: str, names: set[str]) -> None:
    assert selected([each for each in text.split(",") if each]) == names


@pytest.mark.parametrize("text", ["nope", "-nope", "--job", "-*", "controller"])
def test_a_name_that_nobody_has_is_answered_with_the_known_ones(text: str) -> None:
    with pytest.raises(UnknownController, match=r"there is no controller .*: known are taint-eviction-controller, "):
        selected([text])
