"""The decoder and the encoder (protocol §2, §3): what is taken, what is refused and how, and what is sent."""

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core import messages, model
from gateway.core.errors import GatewayError, exceeded, internal, invalid
from gateway.core.ingest import clean
from gateway.core.messages import Refused, Request
from gateway.core.params import METHODS, WRITES, Publish
from tests.core.frames import LIMITS, frame, params_of, refused, snapshot, taken

DEEP = 100_000


# What is taken


def test_a_request_keeps_its_id_and_method() -> None:
    request = taken('{"jsonrpc":"2.0","id":"a","method":"describe","params":{"session":"s","limit":3}}')
    assert (request.id, request.method, request.params.session, request.params.limit) == ("a", "describe", "s", 3)  # type: ignore[attr-defined]


def test_absent_params_are_no_members() -> None:
    assert taken(frame("ping")).params == METHODS["ping"]()


def test_white_space_around_a_message_is_json() -> None:
    assert taken(" \t\r\n" + frame() + "\n").method == "ping"


def test_of_a_name_twice_in_one_object_the_last_counts() -> None:
    text = '{"jsonrpc":"2.0","id":7,"method":"describe","params":{"session":1,"offset":1,"session":"s","offset":2}}'
    assert (params_of(text).session, params_of(text).offset) == ("s", 2)
    text = '{"jsonrpc":"2.0","id":7,"method":"describe","params":{"session":"s","session":1}}'
    assert refused(text)[1]["path"] == "/session"


def test_an_offset_past_every_end_is_taken() -> None:
    assert params_of(frame("describe", {"session": "s", "offset": 10**12})).offset == 10**12
    assert params_of(frame("describe", {"session": "s", "offset": 10**300})).offset == 10**300


@pytest.mark.parametrize(
    "name", ["__proto__", "constructor", "1", "01", "a/b", "Ä", "{x}", "~", " ", "\u2028", "😀" * 200]
)
def test_any_text_is_an_id_and_any_name_a_free_member(name: str) -> None:
    snapshot = {
        "regions": [{"id": name, "title": ""}],
        "records": [{"id": name, "region": name, "fields": {name: {name: None}}}],
        "state": {name: [name]},
        "page": {"params": {name: 1.5}},
        "scope": {name: name},
    }
    params = params_of(frame("publish", {"session": name, "base": None, "snapshot": snapshot}))
    assert isinstance(params, Publish)
    assert params.session == params.snapshot.records[0].id == params.snapshot.regions[0].id == name
    assert params.snapshot.records[0].fields == {name: {name: None}}
    assert params.snapshot.state == {name: [name]}


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","method":"publish"}',
        '{"jsonrpc":"2.0","method":"ping","params":{}}',
        '{"jsonrpc":"2.0","method":"no such","params":5}',
        '{"jsonrpc":"2.0","id":7,"result":{}}',
        '{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":""}}',
        '{"jsonrpc":"2.0","id":null,"result":null}',
        '{"jsonrpc":"2.0","method":"ping","params":' + "[" * 40 + "]" * 40 + "}",
    ],
)
def test_notifications_and_responses_are_dropped(text: str) -> None:
    assert messages.decode(text, LIMITS) is None


# What is refused: protocol §2 and the list of bad input


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "no json",
        "\ufeff" + frame(),
        frame() + "x",
        frame() + frame(),
        frame()[:-1],
        '{"jsonrpc":"2.0","id":7,"method":"ping","params":{},}',
        "{'jsonrpc':'2.0'}",
        '{"a":"\n"}',
        '{"a":"\x00"}',
        '{"a":"\\x"}',
        "NaN",
        '{"a":NaN}',
        '{"a":Infinity}',
        '{"a":-Infinity}',
        '{"a":1e400}',
        '{"a":-1e400}',
        '{"a":01}',
        '{"a":+1}',
        '{"a":.5}',
        '{"a":1.}',
        '{"a":0x10}',
        '{"a":' + "9" * 310 + "}",
        '{"a":-' + "9" * 310 + "}",
        '{"a":[{"b":' + "9" * 4_301 + "}]}",
        "9" * 310,
        '{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + "1" * 310 + "}}",
        '{"a":"\\ud83d"}',
        '{"a":"\\ud83dabcdefgh"}',
        '{"a":"\\ude00"}',
        '{"a":"\\ude00\\ud83d"}',
        '{"a":"\\ud83d\\u0041"}',
        '{"\\ud83d":1}',
        '{"a":"\ud83d"}',
    ],
)
def test_what_is_no_json_is_a_parse_error_without_id(text: str) -> None:
    assert refused(text) == (None, {"kind": "parse_error", "errorClass": "permanent", "retryable": False})


def test_an_integer_of_309_digits_is_exact() -> None:
    digits = "9" * 309
    text = '{"jsonrpc":"2.0","id":7,"method":"publish","params":{"session":"s","base":null,"snapshot":{"state":{"a":-%s}}}}'
    assert params_of(text % digits).snapshot.state == {"a": -int(digits)}
    assert model.text(-int(digits)) == b"-" + digits.encode()


@pytest.mark.parametrize("text", ["[]", "[" + frame() + "]", '"a"', "5", "null", "true", "1.5", "[" * 40 + "]" * 40])
def test_a_message_that_is_no_object_is_an_invalid_request(text: str) -> None:
    id, data = refused(text)
    assert (id, data["kind"]) == (None, "invalid_request")


BAD_IDS = ["null", "7.0", "1e2", "-0.5", "true", "false", "[]", "{}", str(2**53), str(-(2**53)), "9" * 300]
BAD_IDS += ['"%s"' % ("a" * 61), '"%s"' % ("a" * 201), '"%s"' % ("ä" * 31), '"%s"' % ("\\u0001" * 11)]


@pytest.mark.parametrize("id", BAD_IDS)
def test_an_unusable_id_is_an_invalid_request_without_id(id: str) -> None:
    got, data = refused(f'{{"jsonrpc":"2.0","id":{id},"method":"ping"}}')
    assert (got, data["kind"]) == (None, "invalid_request")


@pytest.mark.parametrize(
    "id",
    ["", "a" * 60, "ä" * 30, "\x01" * 10, '"' * 30, "\x7f" * 60, 0, -1, 2**53 - 1, 1 - 2**53, "7", "07", "7.0", "true"],
)
def test_an_id_comes_back_as_it_was_sent(id: int | str) -> None:
    assert taken(frame(id=id)).id == id
    assert json.loads(messages.result(id, b"{}")) == {"jsonrpc": "2.0", "id": id, "result": {}}


@pytest.mark.parametrize(
    ("text", "id"),
    [
        (frame(jsonrpc="1.0"), 7),
        (frame(jsonrpc=2.0), 7),
        (frame(jsonrpc=None), 7),
        ('{"id":7,"method":"ping"}', 7),
        ('{"method":"ping"}', None),
        ("{}", None),
        ('{"jsonrpc":"2.0"}', None),
        ('{"jsonrpc":"2.0","method":5}', None),
        ('{"jsonrpc":"2.0","id":7}', 7),
        (frame(5), 7),
        (frame(None), 7),
        (frame(extra=1), 7),
        (frame(result={}), 7),
        (frame(__proto__={}), 7),
    ],
)
def test_a_message_that_is_no_request_is_an_invalid_request(text: str, id: int | None) -> None:
    got, data = refused(text)
    assert (got, data["kind"]) == (id, "invalid_request")


def test_an_unknown_method_is_told_what_is_near_and_never_what_was_asked() -> None:
    id, data = refused(frame("descripe", 5))
    assert (id, data["kind"], data["suggestions"][0]) == (7, "unknown_method", "describe")
    assert "descripe" not in json.dumps(data)
    for name in ("", "rpc.discover", "x" * 100_000, "__proto__"):
        data = refused(frame(name))[1]
        assert (data["kind"], data["suggestions"]) == ("unknown_method", [])


@pytest.mark.parametrize(
    "method", ["authorize", "find", "invoke", "invocation", "cancel", "decide", "presence", "serve"]
)
def test_methods_of_later_are_unknown(method: str) -> None:
    assert refused(frame(method, {"session": "s"}))[1]["kind"] == "unknown_method"


def nested(levels: int, inner: str = "") -> str:
    return "[" * levels + inner + "]" * levels


def test_depth_counts_arrays_and_objects_of_the_whole_message() -> None:
    text = (
        '{"jsonrpc":"2.0","id":7,"method":"publish","params":{"session":"s","base":null,"snapshot":{"state":{"a":%s}}}}'
    )
    assert taken(text % nested(28, "1")).id == 7  # message, params, snapshot and state are four
    assert refused(text % nested(29, "1")) == (
        7,
        {
            "kind": "limit_exceeded",
            "errorClass": "permanent",
            "retryable": False,
            "limit": "depth",
            "maximum": 32,
            "given": 33,
        },
    )
    assert taken(text % ('{"b":' * 28 + "1" + "}" * 28)).id == 7


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("[" * DEEP, None),
        (nested(DEEP), None),
        ('{"a":' * DEEP, None),
        ('{"jsonrpc":"2.0","id":7,"method":"ping","x":' + nested(DEEP) + "}", 7),
        ('{"jsonrpc":"2.0","id":7,"method":"ping","x":' + nested(500) + "}", 7),
        ('{"jsonrpc":"2.0","id":"a\\"]","method":"ping","params":{"a":' + nested(DEEP) + "}}", 'a"]'),
        ('{"jsonrpc":"2.0","x":{"id":5},"id":7,"method":"ping","params":' + nested(DEEP) + "}", 7),
        ('{"method":"ping","params":' + nested(DEEP) + ',"id":7}', None),
        ('{"id":1.5,"params":' + nested(DEEP) + "}", None),
        ('{"x":"' + '\\"' * 100_000 + '","id":7,"params":' + nested(DEEP) + "}", None),
    ],
)
def test_too_deep_a_message_has_its_id_where_it_stands_before(text: str, id: int | str | None) -> None:
    got, data = refused(text)
    assert (got, data["kind"], data["limit"], data["maximum"]) == (id, "limit_exceeded", "depth", 32)


# Scenarios


def test_br_046_nesting() -> None:
    fields = '{"jsonrpc":"2.0","id":7,"method":"publish","params":{"session":"s","base":null,"snapshot":{"records":[{"id":"a","region":"r","fields":{"f":%s}}]}}}'
    extra = '{"jsonrpc":"2.0","id":7,"method":"ping","params":{},"extra":%s}'
    for text, id in (
        ("[" * DEEP, None),
        (extra % nested(DEEP), 7),
        (fields % nested(DEEP), 7),
        (fields % nested(900), 7),
    ):
        got, data = refused(text)
        assert (got, data["kind"], data["limit"]) == (id, "limit_exceeded", "depth")
    assert refused(fields % ("[" * DEEP))[1]["kind"] in ("limit_exceeded", "parse_error")
    legal = LIMITS.depth - 6  # message, params, snapshot, records, record, fields
    assert taken(fields % nested(legal)).method == "publish"
    assert refused(fields % nested(legal + 1))[1]["given"] == LIMITS.depth + 1


def test_br_048_lone_surrogate() -> None:
    text = '{"jsonrpc":"2.0","id":7,"method":"publish","params":{"session":"s","base":null,"snapshot":{"state":{"label":"%s"}}}}'
    assert params_of(text % "\\ud83d\\ude00").snapshot.state == {"label": "😀"}
    assert model.text({"label": "😀"}) == '{"label":"😀"}'.encode()
    for lone in ("\\ud83d", "\\ude00\\ud83d", "\\ud83dx", "x\\ude00", "\ud83d", "\ude00\ud83d"):
        assert refused(text % lone)[1]["kind"] == "parse_error"


def test_br_052_big_int() -> None:
    for id in (653247040368672768, 1, True, None, "", "x" * 10_000, 1.0):
        params = snapshot(records=[{"id": id, "region": "r"}])
        assert refused(frame("publish", params))[1]["path"] == "/snapshot/records/0/id"
    ids = ["653247040368672768", "1", "01", "1.0"]
    records = params_of(frame("publish", snapshot(records=[{"id": id, "region": "r"} for id in ids]))).snapshot.records
    assert [record.id for record in records] == ids
    assert params_of(frame("describe", {"session": "s", "record": ["1", "01"]})).record == ["1", "01"]
    assert refused(frame("describe", {"session": "s", "record": [1]}))[1]["path"] == "/record/0"


def test_br_064_id_type() -> None:
    ids: list[int | str] = [1, "1", "01", "true", 2**53 - 1]
    requests = [taken(frame("describe", {"session": f"s{n}"}, id=id)) for n, id in enumerate(ids)]
    for n, request in reversed(list(enumerate(requests))):
        answer = json.loads(messages.result(request.id, model.text({"session": request.params.session})))  # type: ignore[attr-defined]
        assert answer == {"jsonrpc": "2.0", "id": ids[n], "result": {"session": f"s{n}"}}
        assert type(answer["id"]) is type(ids[n])
    for unusable in ("1.0", "9007199254740993"):
        assert refused(f'{{"jsonrpc":"2.0","id":{unusable},"method":"ping"}}')[0] is None


MUTANTS = [
    "\ufeff" + frame(),
    frame() + " trailing",
    frame() + frame(),
    "",
    "   ",
    "\x01",
    '"\\ud800"',
    '"\\udc00"',
    '"\\udc00\\ud800"',
]


@settings(max_examples=2_000)
@given(st.data())
def test_br_089_error_class(data: st.DataObject) -> None:
    whole = frame("describe", {"session": "s", "record": ["a", "Ä"], "x": [1.5, None, True]})
    at = data.draw(st.integers(0, len(whole) - 1))
    mutant = data.draw(
        st.one_of(
            st.sampled_from(MUTANTS),
            st.just(whole[:at]),
            st.characters().map(lambda c: whole[:at] + c + whole[at + 1 :]),
            st.characters().map(lambda c: whole[:at] + c + whole[at:]),
        )
    )
    answer = only_documented(mutant)
    assert answer is None or isinstance(answer, (Request, Refused))
    assert taken(frame()).method == "ping"


# Properties


def only_documented(text: str) -> Request | Refused | None:
    """What became of a text; any other exception fails the test."""
    try:
        return messages.decode(text, LIMITS)
    except Refused as refusal:
        assert refusal.error.kind in (
            "parse_error",
            "invalid_request",
            "unknown_method",
            "invalid_params",
            "limit_exceeded",
        )
        assert json.loads(messages.error(refusal.id, refusal.error))["id"] == refusal.id
        return refusal


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(), v, max_size=4), max_leaves=20
)


@given(st.text(st.characters()))
def test_any_text_is_taken_dropped_or_refused(text: str) -> None:
    only_documented(text)


@given(
    st.sampled_from([*METHODS, "find"]), st.dictionaries(st.sampled_from(["session", "base", "record", "x"]), VALUES)
)
def test_any_params_are_taken_or_refused_without_their_values(method: str, params: dict[str, Any]) -> None:
    secret = "s3cr3t-value"
    text = json.dumps(
        {"jsonrpc": "2.0", "id": 7, "method": method, "params": params | {"client": secret, "view": [secret]}}
    )
    refusal = only_documented(text)
    assert isinstance(refusal, Refused)
    assert secret.encode() not in messages.error(refusal.id, refusal.error)


@given(VALUES)
def test_the_text_of_a_normal_value_is_stable(value: Any) -> None:
    text = model.text(clean(value)[0])
    again = msgspec.json.decode(text)
    assert model.text(again) == model.text(clean(again)[0]) == text


@given(VALUES)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert json.loads(model.text(value)) == value


@given(VALUES)
def test_members_ascend_at_every_depth_and_nothing_is_escaped_but_what_json_demands(value: Any) -> None:
    def ordered(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: ordered(value[name]) for name in sorted(value)}
        return [ordered(item) for item in value] if isinstance(value, list) else value

    def pieces(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ",".join(pieces(name) + ":" + pieces(member) for name, member in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ",".join(map(pieces, value)) + "]"
        if isinstance(value, float):
            return model.text(value).decode()  # the shortest form is judged by reading it back, above
        return json.dumps(value, ensure_ascii=False)

    expected = pieces(ordered(value))
    # json escapes U+0008 and U+000C by letter, as msgspec does, and other controls as \u00xx
    assert model.text(value).decode() == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (80.0, b"80"),
        (1e2, b"100"),
        (-0.0, b"0"),
        (float(2**53 - 1), b"9007199254740991"),
        (float(2**53), b"9007199254740992.0"),
        (1e300, b"1e300"),
        (1.5, b"1.5"),
        (0.1, b"0.1"),
        (5e-324, b"5e-324"),
        (2**64, b"18446744073709551616"),
        (True, b"true"),
        ([1.0, {"b": 2.0, "a": [3.0, None]}], b'[1,{"a":[3,null],"b":2}]'),
        ('a/\u2028\x7f\x01\n"\\', b'"a/\xe2\x80\xa8\x7f\\u0001\\n\\"\\\\"'),
        ({"\U00010000": 1, "\uffff": 2, "Z": 3, "a": 4}, '{"Z":3,"a":4,"\uffff":2,"\U00010000":1}'.encode()),
    ],
)
def test_numbers_and_texts_as_ingest_keeps_them(value: Any, text: bytes) -> None:
    assert model.text(clean(value)[0]) == text


def test_only_integers_below_2_to_the_53_are_converted() -> None:
    assert type(clean(float(2**53))[0]) is float
    assert type(clean(-float(2**53 - 1))[0]) is int
    assert math.copysign(1, clean(-0.0)[0]) == 1


def test_ready_text_goes_into_larger_text_as_it_is() -> None:
    assert model.text({"b": msgspec.Raw(b'{"z":1,"a":2.0}'), "a": 1}) == b'{"a":1,"b":{"z":1,"a":2.0}}'


# The encoder


def test_the_frames_of_json_rpc() -> None:
    assert messages.result('a"Ä', b'{"x":1}') == '{"jsonrpc":"2.0","id":"a\\"Ä","result":{"x":1}}'.encode()
    assert messages.notification("after", b"{}") == b'{"jsonrpc":"2.0","method":"after","params":{}}'
    assert messages.error(None, invalid("/a", "an id")) == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"A parameter is not as the protocol says.","data":'
        b'{"kind":"invalid_params","errorClass":"permanent","retryable":false,"path":"/a","expected":"an id"}}}'
    )


def test_a_refusal_may_tell_a_number_of_any_size() -> None:
    reply = json.loads(messages.error(7, exceeded("limit", 1, 10**300)))
    assert reply["error"]["data"]["given"] == 10**300


@pytest.mark.parametrize("method", [*METHODS, "find", None])
def test_a_bug_is_ambiguous_where_it_may_have_written(method: str | None) -> None:
    error = internal(method)
    assert isinstance(error, GatewayError)
    data = error.wire()["data"]
    assert data["kind"] == "internal"
    assert (data["errorClass"], data["retryable"]) == (
        ("ambiguous", False) if method in WRITES else ("transient", True)
    )
