"""What typed clients send in protobuf is read as the JSON that they would have sent."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moorage.api.kinds import KINDS as ROWS
from moorage.apiserver.http.messages import Refused, Request, Response
from moorage.apiserver.request.bodies import parsed
from moorage.apiserver.request.protobuf import MEDIA_TYPE, ProtobufError, decode
from tests.apiserver.edge import scenario
from tests.apiserver.json_values import maps, without_nulls
from tests.apiserver.kubectl import Shelf, kubectl, needs_kubectl
from tests.apiserver.request.wire_bytes import KINDS, MESSAGES, Data, body, field, varint, written

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}
POD = {"apiVersion": "v1", "kind": "Pod"}
NAMED = field(1, field(1, "x"))


def pod_spec(*fields: bytes) -> Any:
    return decode(body("v1", "Pod", field(2, b"".join(fields))))["spec"]


def refusal(data: bytes) -> str:
    with pytest.raises(ProtobufError) as refused:
        decode(data)
    return str(refused.value)


def test_an_object_has_its_kind_and_its_fields() -> None:
    data = field(2, field(1, "greeting") + field(2, "hello"))
    assert decode(body("v1", "ConfigMap", NAMED, data)) == {
        **CONFIG_MAP,
        "metadata": {"name": "x"},
        "data": {"greeting": "hello"},
    }


def test_an_object_of_nothing_is_only_a_kind() -> None:
    assert decode(body("v1", "Pod")) == POD
    assert decode(b"k8s\0" + field(1, field(1, "v1") + field(2, "Pod"))) == POD


def test_what_go_writes_though_it_is_empty_is_dropped_where_json_drops_it() -> None:
    # What kubectl writes for the metadata of an object that has only a name.
    metadata = field(1, "y") + b"".join(field(number, "") for number in (2, 3, 4, 5, 6)) + field(7, 0) + field(8, b"")
    made = decode(body("v1", "Namespace", field(1, metadata), field(2, b""), field(3, field(1, ""))))
    assert made == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "y"}, "spec": {}, "status": {}}


def test_zeros_that_mean_something_are_kept() -> None:
    assert decode(body("apps/v1", "Deployment", field(2, field(1, 0) + field(5, 0))))["spec"] == {"replicas": 0}
    assert decode(body("v1", "DeleteOptions", field(1, 0) + field(3, 0))) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "orphanDependents": False,
    }
    assert decode(body("v1", "Service", field(3, b"\x0a\x00")))["status"] == {"loadBalancer": {}}
    env = field(2, field(7, field(1, "A") + field(2, "")))
    assert pod_spec(env) == {"containers": [{"env": [{"name": "A"}]}]}


def test_the_last_of_several_values_counts_and_messages_add_up() -> None:
    name = field(1, field(1, "a")) + field(1, field(3, "n") + field(1, "b"))
    assert decode(body("v1", "ConfigMap", name))["metadata"] == {"name": "b", "namespace": "n"}
    assert decode(body("v1", "ConfigMap", name, field(1, field(1, ""))))["metadata"] == {"namespace": "n"}


def test_parts_without_a_name_lie_flat() -> None:
    empty_dir = field(2, field(2, field(1, "Memory")))
    assert pod_spec(field(1, field(1, "v") + empty_dir)) == {
        "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]
    }
    handler = field(1, field(2, field(1, "/") + field(2, field(1, 1) + field(2, 0) + field(3, "web"))))
    probe = pod_spec(field(2, field(10, handler + field(2, 0) + field(7, 0))))["containers"][0]["livenessProbe"]
    assert probe == {"httpGet": {"path": "/", "port": "web"}, "terminationGracePeriodSeconds": 0}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_700_000_000, "2023-11-14T22:13:20Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (-62_135_596_799, "0001-01-01T00:00:01Z"),
        (253_402_300_799, "9999-12-31T23:59:59Z"),
    ],
)
def test_a_time_is_a_text_of_whole_seconds(seconds: int, text: str) -> None:
    stamp = field(8, field(1, seconds) + field(2, 999_999_999))
    assert decode(body("v1", "Pod", field(1, stamp)))["metadata"] == {"creationTimestamp": text}


@pytest.mark.parametrize("stamp", [b"", field(1, -62_135_596_800)])
def test_no_time_is_no_field(stamp: bytes) -> None:
    assert decode(body("v1", "Pod", field(1, field(8, stamp))))["metadata"] == {}


@pytest.mark.parametrize("seconds", [253_402_300_800, -62_135_596_801, 2**63 - 1, -(2**63)])
def test_a_time_beyond_the_calendar_is_refused(seconds: int) -> None:
    assert refusal(body("v1", "Pod", field(1, field(8, field(1, seconds))))) == "a time is not in the years 1 to 9999"


@pytest.mark.parametrize(("nanos", "fraction"), [(0, "000000"), (1_999, "000001"), (123_456_789, "123456")])
def test_the_time_of_a_lease_has_microseconds(nanos: int, fraction: str) -> None:
    lease = body("coordination.k8s.io/v1", "Lease", field(2, field(4, field(1, 1) + field(2, nanos))))
    assert decode(lease)["spec"] == {"renewTime": f"1970-01-01T00:00:01.{fraction}Z"}


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        (field(1, 0) + field(2, 3) + field(3, ""), 3),
        (field(1, 1) + field(2, 0) + field(3, "25%"), "25%"),
        (b"", 0),
        (field(2, -1), -1),
        (field(1, 1), ""),
    ],
)
def test_a_value_is_a_number_or_a_string(wire: bytes, value: int | str) -> None:
    budget = decode(body("policy/v1", "PodDisruptionBudget", field(2, field(1, wire))))
    assert budget["spec"] == {"minAvailable": value}


def test_a_value_of_neither_type_is_refused() -> None:
    data = body("policy/v1", "PodDisruptionBudget", field(2, field(1, field(1, 2))))
    assert refusal(data) == "a value of the type 2 is neither a number nor a string"


def test_quantities_bytes_and_raw_objects() -> None:
    capacity = field(1, field(1, "cpu") + field(2, field(1, "250m"))) + field(1, field(1, "memory"))
    assert decode(body("v1", "Node", field(3, capacity)))["status"]["capacity"] == {"cpu": "250m", "memory": "0"}
    assert decode(body("v1", "Secret", field(2, field(1, "k") + field(2, b"\xff\0"))))["data"] == {"k": "/wA="}
    revision = decode(body("apps/v1", "ControllerRevision", field(2, field(1, '{"spec":{"a":[1,null]}}')), field(3, 0)))
    assert revision == {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "data": {"spec": {"a": [1, None]}},
        "revision": 0,
    }
    assert "data" not in decode(body("apps/v1", "ControllerRevision", field(2, b"")))


def test_extra_values_are_lists() -> None:
    extra = field(5, field(1, "scopes") + field(2, field(1, "a") + field(1, "b"))) + field(5, field(1, "none"))
    review = decode(body("authorization.k8s.io/v1", "SubjectAccessReview", field(2, extra)))
    assert review["spec"] == {"extra": {"scopes": ["a", "b"], "none": []}}


@pytest.mark.parametrize(
    "groups",
    [field(4, 1) + field(4, 2**40) + field(4, -1), field(4, varint(1) + varint(2**40) + varint(-1))],
    ids=["one by one", "packed"],
)
def test_numbers_in_lists_come_packed_or_one_by_one(groups: bytes) -> None:
    assert pod_spec(field(14, groups)) == {"securityContext": {"supplementalGroups": [1, 2**40, -1]}}


@pytest.mark.parametrize(("sent", "read"), [(-1, -1), (2**31, -(2**31)), (2**32 + 5, 5), (2**63, 0)])
def test_a_number_of_32_bits_is_cut_as_go_cuts_it(sent: int, read: int) -> None:
    assert decode(body("apps/v1", "Deployment", field(2, field(1, sent))))["spec"] == {"replicas": read}


def test_fields_of_newer_clients_are_skipped() -> None:
    new = field(900, "text") + field(901, 7) + varint(902 << 3 | 1) + bytes(8) + varint(903 << 3 | 5) + bytes(4)
    assert decode(body("v1", "ConfigMap", new, NAMED, new, more=new)) == {**CONFIG_MAP, "metadata": {"name": "x"}}


def test_options_of_a_deletion_are_the_same_in_every_group() -> None:
    for version in ("v1", "apps/v1", "meta.k8s.io/v1"):
        options = decode(body(version, "DeleteOptions", field(4, "Foreground"), field(2, field(1, "u"))))
        assert options["propagationPolicy"] == "Foreground"
        assert options["preconditions"] == {"uid": "u"}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", r"the body does not begin with k8s\0"),
        (b'{"kind":"Pod"}', r"the body does not begin with k8s\0"),
        (b"k8s\0", "the kind '' of '' is not known in protobuf: send it as JSON"),
        (body("example.com/v1", "Boat"), "the kind 'Boat' of 'example.com/v1' is not known in protobuf"),
        (body("", "v1/Pod"), "the kind 'v1/Pod' of '' is not known"),
        (body("v1", "Pod", more=field(3, "gzip")), "the object is wrapped as 'gzip': only plain"),
        (body("v1", "Pod", more=field(4, "application/json")), "the object is wrapped as 'application/json'"),
        (body("v1", "Pod", field(1, 7)), "field 1 of core.v1.Pod cannot have the wire type 0"),
        (body("v1", "Pod", field(0, 7)), "field 0 of core.v1.Pod cannot have the wire type 0"),
        (body("v1", "Pod", b"\x0b\x0c"), "field 1 of core.v1.Pod has the wire type 3, which is not in use"),
        (body("v1", "Pod", field(1, b"\x0a\x05abc")), "field 1 of meta.v1.ObjectMeta is longer than what holds it"),
        (body("v1", "Pod", b"\x0a" + varint(2**62)), "field 1 of core.v1.Pod is longer than what holds it"),
        (body("v1", "Pod", b"\x0a" + varint(-1)), "field 1 of core.v1.Pod is longer than what holds it"),
        (body("v1", "Pod", b"\x0a"), "the body ends in the middle of a field"),
        (body("v1", "Pod", varint(999 << 3 | 5) + b"\0"), "field 999 of core.v1.Pod is longer than what holds it"),
        (body("v1", "Pod", b"\xff" * 11), "a number has more than 64 bits"),
        (body("v1", "Pod", field(1, field(1, b"\xff"))), "a string is not in UTF-8"),
        (body("v1", "Pod", field(1, field(1, b"\xed\xa0\x80"))), "a string is not in UTF-8"),
        (body("apps/v1", "ControllerRevision", field(2, field(1, "{"))), "an object of any kind inside is not JSON"),
        (body("apps/v1", "ControllerRevision", field(2, field(1, "[" * 100_000))), "an object of any kind inside"),
        (
            body("apps/v1", "ControllerRevision", field(2, field(1, b"\xff"))),
            "an object of any kind inside is not JSON",
        ),
    ],
)
def test_what_is_no_object_is_refused_with_a_sentence(data: bytes, why: str) -> None:
    assert refusal(data).startswith(why)


async def test_a_request_may_bring_its_body_in_protobuf() -> None:
    headers = [("Content-Type", MEDIA_TYPE)]
    sent = await parsed(Request.of("POST", "/", headers, body("v1", "ConfigMap", NAMED)))
    assert sent["metadata"] == {"name": "x"}
    with pytest.raises(Refused) as refused:
        await parsed(Request.of("POST", "/", headers, b"{}"))
    answer = refused.value.response
    assert answer.status == 400
    assert isinstance(answer.body, bytes)
    message = msgspec.json.decode(answer.body)["message"]
    assert (
        message == r"the object provided is unrecognized (must be of type Protobuf): the body does not begin with k8s\0"
    )


WHOLE = {"i": st.integers(-(2**31), 2**31 - 1), "l": st.integers(-(2**63), 2**63 - 1)}
TIMES = st.datetimes(min_value=datetime(1, 1, 2))
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "?s": st.text(max_size=5),
    "?b": st.booleans(),
    "?i": WHOLE["i"],
    "?l": WHOLE["l"],
    "?B": st.sampled_from(("", "AA==", "/wA=")),
    "?e": st.lists(st.text(max_size=5), max_size=2),
    "s": st.text(min_size=1, max_size=5),
    "b": st.just(True),
    "i": WHOLE["i"].map(lambda number: number or 1),
    "l": WHOLE["l"].map(lambda number: number or 1),
    "t": TIMES.map(lambda time: f"{time.isoformat(timespec='seconds')}Z"),
    "m": TIMES.map(lambda time: f"{time.isoformat(timespec='microseconds')}Z"),
    "q": st.sampled_from(("0", "250m", "1Gi", "-5")),
    "x": WHOLE["i"] | st.text(max_size=5),
    "*": maps,
}


def fits(code: str) -> st.SearchStrategy[Any]:
    """What JSON can hold in a field of a type, and protobuf can say."""
    if code in SCALARS:
        return SCALARS[code]
    if code[0] == "[":
        return st.lists(fits(f"?{code[1:]}"), min_size=1, max_size=2)
    if code[0] == "{":
        return st.dictionaries(st.text(max_size=3), fits(f"?{code[1:]}"), min_size=1, max_size=2)
    return fits(code[1:]) if code[0] == "?" else some_fields(code)


@st.composite
def some_fields(draw: st.DrawFn, message: str) -> Data:
    made: Data = {}
    fields = list(MESSAGES[message].values())
    for text in draw(st.lists(st.sampled_from(fields), max_size=4, unique=True)) if fields else ():
        name, _, code = text.partition(":")
        made |= {name: draw(fits(code))} if name else draw(some_fields(code))
    return made


@st.composite
def objects(draw: st.DrawFn) -> Data:
    spelling = draw(st.sampled_from(sorted(KINDS)))
    version, _, kind = spelling.rpartition("/")
    return {"apiVersion": version, "kind": kind, **draw(some_fields(KINDS[spelling]))}


@given(objects())
def test_what_another_library_writes_is_read_back(data: Data) -> None:
    assert decode(written(data)) == data


def _read_or_refused(data: bytes) -> None:
    try:
        found = decode(data)
    except ProtobufError:
        return
    msgspec.json.encode(found)


@given(st.sampled_from(sorted(KINDS)), st.binary(max_size=64))
@example("v1/Pod", bytes(range(256)))
def test_noise_is_read_or_refused_and_nothing_else(spelling: str, noise: bytes) -> None:
    version, _, kind = spelling.rpartition("/")
    _read_or_refused(body(version, kind, noise))
    _read_or_refused(b"k8s\0" + noise)
    _read_or_refused(noise)


@given(objects(), st.data())
def test_a_damaged_object_is_read_or_refused_and_nothing_else(data: Data, damage: st.DataObject) -> None:
    whole = written(data)
    place = damage.draw(st.integers(0, len(whole)))
    _read_or_refused(whole[:place])
    _read_or_refused(whole[:place] + damage.draw(st.binary(max_size=3)) + whole[place + 1 :])


def test_no_message_holds_itself_and_every_message_is_there() -> None:
    def depth(name: str, above: tuple[str, ...] = ()) -> int:
        assert name not in above
        types = {text.partition(":")[2].lstrip("[{?") for text in MESSAGES[name].values()}
        inner = (depth(each, (*above, name)) for each in types if len(each) > 1)
        return 1 + max(inner, default=0)

    assert max(map(depth, KINDS.values())) < 20


def test_every_kind_that_clients_know_can_be_sent() -> None:
    ours = {f"{row.api_version}/{row.kind}" for row in ROWS}
    assert ours <= KINDS.keys()


COMMANDS = """\
create namespace shop
create deployment web --image=nginx --replicas=3 --port=80
create deployment many --image=a --image=b:1
create configmap settings --from-literal=a=1 --from-literal=empty=
create secret generic keys --from-literal=p=q --type=example.com/thing
create secret docker-registry pull --docker-username=u --docker-password=p --docker-email=e
create serviceaccount robot
create role reader --verb=get,list --resource=pods,pods/log --resource-name=a
create clusterrole prober --verb=get --non-resource-url=/healthz
create clusterrole summed --aggregation-rule=a=b
create rolebinding readers --role=reader --serviceaccount=shop:robot --user=bob
create clusterrolebinding watchers --clusterrole=watcher --group=crew
create job once --image=busybox -- sh -c true
create cronjob often --image=busybox --schedule='*/5 * * * *' -- date
create poddisruptionbudget half --selector=app=web --min-available=50%
create poddisruptionbudget two --selector=app=web --max-unavailable=2
create priorityclass high --value=1000 --description=first
create service clusterip web --tcp=80:8080
create service clusterip headless --clusterip=None
create service nodeport web --tcp=80 --node-port=30000
create service externalname away --external-name=example.com
"""


class Typed(Shelf):
    """Takes what is created in protobuf."""

    async def __call__(self, request: Request) -> Response:
        if request.method != "POST":
            return await super().__call__(request)
        self.requests.append(request)
        return Response(201, msgspec.json.encode(decode(request.body)))


@needs_kubectl
@pytest.mark.parametrize("command", COMMANDS.splitlines())
@scenario
async def test_kubectl_sends_what_it_would_print(command: str) -> None:
    shelf, words = Typed(), shlex.split(command)
    at = words.index("--") if "--" in words else len(words)
    async with kubectl(shelf) as run:
        printed = await run(*words[:at], "--dry-run=client", "-o", "json", *words[at:])
        await run(*words)
    (request,) = shelf.asked("POST", "/")
    assert request.headers.get("Content-Type") == MEDIA_TYPE
    assert decode(request.body) == without_nulls(msgspec.json.decode(printed))
