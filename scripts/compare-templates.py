#!/usr/bin/env python3
"""compare-templates.py: chat templates as we render them beside jinja2 as transformers sets it up.

  scripts/compare-templates.py PROGRAM [FILE...] [--package NAME]... [--random N] [--seed S]

PROGRAM is tests/text/render_chat of a build.  A FILE is a template, or a folder, wheel or source
archive in which all *.jinja are; --package takes those of an installed package.  trl,
llama-cpp-python (its source archive has those of llama.cpp) and unsloth bring many:
  pip download --no-deps trl unsloth
  pip download --no-deps --no-binary :all: llama-cpp-python
Each template is rendered for conversations with and without tools, with empty turns, odd characters,
reasoning, parts, and with what templates ask of their caller; --random N renders N templates that a
generator makes.  Texts and the places of `generation` blocks must be equal, and an error where
jinja2 has one.  Contents come in the form that a template shows: a text is a list of one part where
a template shows parts alone, and an image is an error where it shows no parts, instead of a list
printed as Python prints it.  Needs jinja2 3.1.6 and transformers 5.

Exit codes: 0 all equal; 1 some differ, which are shown; 64 usage.
"""
import argparse
import functools
import importlib.util
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tarfile
import zipfile
from datetime import datetime

from transformers.utils import chat_template_utils

NOW = 1785585600  # 2026-08-01, noon: on that day nearly everywhere
TOKENS = {"bos_token": "<BOS>", "eos_token": "<EOS>", "pad_token": "<PAD>", "unk_token": "<UNK>"}

TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a place: \"now\" & later <b>",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "A città\nor a village"},
        "days": {"type": ["integer", "null"], "default": 1, "minimum": 0.5},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "items": {"type": "array", "items": {"type": "object", "properties": {
            "a": {"type": "boolean"}}}}},
        "required": ["place"]},
    "return": {"type": "object", "description": "Numbers"}}},
    {"type": "function", "function": {"name": "stop", "description": "", "parameters": {
        "type": "object", "properties": {}}}}]


def call(name, arguments, **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def conversations():
    """Names and what a template sees of each."""
    system = {"role": "system", "content": "S"}
    odd = "  ein 'Wort' \"zwei\"\n\tΩмега ꙮ 🙂👩‍👩‍👧 \u2028\u00a0\u200b<|im_end|>{{ x }}\\n  "
    turns = [user("U1"), assistant("A1"), user("U2")]
    with_call = [system, user("Weather?"),
                 assistant("", tool_calls=[call("get_weather", {"place": "Zürich", "days": 2},
                                                id="abc123def")]),
                 {"role": "tool", "name": "get_weather", "tool_call_id": "abc123def",
                  "content": "{\"t\": 21.5}"},
                 assistant("21.5 degrees"), user("And \"Rome\"?")]
    thinking = "<think>\nhm\n</think>\n\nyes"
    return {
        "plain": dict(messages=[system] + turns, add_generation_prompt=True),
        "no prompt": dict(messages=[system] + turns),
        "no system": dict(messages=turns, add_generation_prompt=True),
        "ends with answer": dict(messages=[system, user("U1"), assistant("A1")]),
        "continue": dict(messages=[user("U1"), assistant("A1 goes on ")],
                         continue_final_message=True),
        "empty turns": dict(messages=[{"role": "system", "content": ""}, user(""), assistant(""),
                                      user(" \n")], add_generation_prompt=True),
        "odd": dict(messages=[{"role": "system", "content": odd}, user(odd), assistant(odd),
                              user(odd)], add_generation_prompt=True),
        "reasoning": dict(messages=[user("U1"), assistant("A1", reasoning_content="because"),
                                    user("U2"), assistant(thinking), user("U3")],
                          add_generation_prompt=True),
        "reasoning, off": dict(messages=[user("U1"), assistant(thinking), user("U2")],
                               add_generation_prompt=True,
                               kwargs={"enable_thinking": False, "thinking": False}),
        "reasoning, on": dict(messages=[system, user("U1"), assistant(thinking), user("U2")],
                              add_generation_prompt=True,
                              kwargs={"enable_thinking": True, "thinking": True,
                                      "reasoning_effort": "high", "clear_thinking": False}),
        "date": dict(messages=turns, add_generation_prompt=True,
                     kwargs={"date_string": "26 Jul 2024", "model_identity": "You are a test.",
                             "builtin_tools": ["browser", "python"]}),
        "tools": dict(messages=[system] + turns, tools=TOOLS, add_generation_prompt=True),
        "tool call": dict(messages=with_call, tools=TOOLS, add_generation_prompt=True),
        "tool call, no system": dict(messages=with_call[1:4], tools=TOOLS[:1]),
        "two calls": dict(messages=[user("Both?"), assistant("So", tool_calls=[
            call("get_weather", {"place": "a\"b", "n": [1, 2.5, None, True, {"k": "v"}]},
                 id="123456789"), call("stop", {}, id="987654321")]),
            {"role": "tool", "tool_call_id": "123456789", "name": "get_weather", "content": "1"},
            {"role": "tool", "tool_call_id": "987654321", "name": "stop", "content": "2"}],
            tools=TOOLS, add_generation_prompt=True),
        "arguments as text": dict(messages=[user("U1"), assistant(None, tool_calls=[
            call("stop", "{\"a\": 1}", id="123456789")]),
            {"role": "tool", "tool_call_id": "123456789", "content": "ok"}], tools=TOOLS),
        "parts": dict(messages=[
            {"role": "system", "content": [{"type": "text", "text": "S"}]},
            {"role": "user", "content": [{"type": "text", "text": "look "},
                                         {"type": "text", "text": "here"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "A1"}]}, user("U2")],
            add_generation_prompt=True),
        "image": dict(messages=[{"role": "user", "content": [
            {"type": "image"}, {"type": "text", "text": "What is it?"}]}],
            add_generation_prompt=True),
        "developer": dict(messages=[{"role": "developer", "content": "D"}] + turns,
                          add_generation_prompt=True),
        "wrong order": dict(messages=[assistant("A1"), user("U1"), user("U2"), system]),
        "documents": dict(messages=turns, add_generation_prompt=True,
                          documents=[{"title": "T", "text": "X", "contents": "C"},
                                     {"title": "Ü", "text": "Y\nZ"}]),
        "no messages": dict(messages=[], add_generation_prompt=True),
    }


def templates_in(path):
    """(name, source) of a file, or of all templates in a folder or archive."""
    path = pathlib.Path(path)
    if path.is_dir():
        for file in sorted(path.rglob("*.jinja")):
            yield str(file.relative_to(path)), file.read_text(encoding="utf-8")
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".jinja"):
                    yield name, archive.read(name).decode()
    elif tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(".jinja"):
                    yield member.name, archive.extractfile(member).read().decode()
    else:
        yield path.name, path.read_text(encoding="utf-8")


class FixedClock(datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, tz)


chat_template_utils.datetime = FixedClock


def part(text):
    return [{"type": "text", "text": text}]


@functools.lru_cache
def shows(source, as_part, behind_system):
    """Whether a user's text, or part, is found in what the template makes of it; None: it fails."""
    form = part if as_part else str
    messages = [{"role": "system", "content": form("SYSTEM")}] * behind_system + [user(form("CONTENT"))]
    try:
        [text], _ = chat_template_utils.render_jinja_template([messages], chat_template=source, **dict.fromkeys(TOKENS, ""))
    except Exception:
        return None
    return "CONTENT" in text and "'type'" not in text


def in_its_form(source, content):
    shown = next((both for both in ([shows(source, kind, behind) for kind in (False, True)] for behind in (0, 1))
                  if both != [None, None]), [None, None])
    if isinstance(content, str) and not shown[0] and shown[1]:
        return part(content)
    reads_parts = not shown[0] if shown[1] is None else shown[1]
    if isinstance(content, list) and not reads_parts and any(one["type"] == "image" for one in content):
        raise ValueError("the template has no place for images")
    return content


def theirs(source, given):
    """What transformers makes of it, in the form of render_chat's answer."""
    kwargs = dict(TOKENS, **given.get("kwargs", {}))
    try:
        messages = [json.loads(json.dumps(given["messages"]))]
        for message in messages[0]:
            if "content" in message:
                message["content"] = in_its_form(source, message["content"])
        more = dict(tools=given.get("tools"), documents=given.get("documents"),
                    chat_template=source,
                    continue_final_message=given.get("continue_final_message", False),
                    add_generation_prompt=given.get("add_generation_prompt", False), **kwargs)
        [text], [spans] = chat_template_utils.render_jinja_template(
            messages, return_assistant_tokens_mask=True, **more)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    bytes_to = lambda n: len(text[:n].encode())
    return {"text": text, "generated": [[bytes_to(a), bytes_to(b)] for a, b in spans]}


class Ours:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def render(self, source, given):
        given = dict(given, template=source, special_tokens=TOKENS, now=NOW)
        given["messages"] = chat_template_utils._alias_reasoning_fields(given["messages"])
        self.process.stdin.write(json.dumps(given).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"render_chat died of: {source!r} {given!r}")
        return json.loads(line)


def same(ours, other):
    if "text" in ours and "text" in other:
        return ours["text"] == other["text"] and (
            ours["generated"] == other["generated"] or not ours["placed"])
    return "error" in other and "text" not in ours


def difference(ours, other):
    if "text" not in ours or "text" not in other:
        short = lambda x: {k: v if len(str(v)) < 300 else str(v)[:300] for k, v in x.items()}
        return f"    ours   {short(ours)}\n    jinja2 {short(other)}"
    a, b = ours["text"], other["text"]
    at = next((i for i, (x, y) in enumerate(itertools.zip_longest(a, b)) if x != y), None)
    if at is None:
        return f"    ours   {ours['generated']}\n    jinja2 {other['generated']}"
    return (f"    at {at}: ours   {a[max(0, at - 40):at + 60]!r}\n"
            f"    at {at}: jinja2 {b[max(0, at - 40):at + 60]!r}")


class Maker:
    """Random templates: expressions of all kinds, and statements around them."""

    NAMES = ["s", "t", "n", "f", "l", "d", "e", "none", "true", "missing", "m", "x"]
    GIVEN = {"s": "Hello, Wörld ", "t": "a,b,,C", "n": 7, "f": -2.5, "l": [3, "x", 1.0, None, [1]],
             "d": {"b": 1, "A": {"c": [1, 2]}, "items": "i"}, "e": [], "m": [
                 {"role": "user", "content": "hi", "k": 2}, {"role": "assistant", "content": "Yo",
                                                            "k": 1}]}
    FILTERS = ["trim", "length", "upper", "lower", "title", "capitalize", "string", "tojson",
               "list", "first", "last", "join(',')", "default('D')", "default('D', true)", "int",
               "float", "abs", "round", "round(1)", "safe", "e", "unique|list", "sort",
               "replace('l', 'L')", "items|list", "dictsort", "select|list", "reject|list",
               "map('string')|list", "map('upper')|join('-')", "map(attribute='k')|list",
               "selectattr('role', 'equalto', 'user')|list", "rejectattr('k')|list", "sum",
               "tojson(indent=2)", "indent", "indent(2, true)", "selectattr('k', 'defined')|first",
               "map(attribute='role')|join", "sort(attribute='k')", "count", "reverse|list"]
    TESTS = ["string", "defined", "undefined", "none", "mapping", "sequence", "iterable", "boolean",
             "true", "false", "number", "integer", "float", "not none", "in l", "eq 7", "ne s",
             "equalto('x')", "odd", "even"]
    METHODS = [".strip()", ".split(',')", ".split()", ".upper()", ".lower()", ".title()",
               ".startswith('H')", ".endswith(('x', ' '))", ".replace('a', 'Z')", ".find('l')",
               ".count('l')", ".get('b')", ".get('zz', 5)", ".items()|list", ".keys()|list",
               ".values()|list", ".lstrip('aH')", ".rstrip()", ".splitlines()", ".isdigit()",
               ".partition(',')", ".capitalize()", ".split(',', 1)", ".b", ".A.c", "[0]",
               "[-1]", "['b']", "[1:]", "[::-1]", "[:2]", "[-3:-1]", "['A']", ".role",
               "[0].content", ".format(1, x=2)"]
    BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
              "and", "or"]

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.in_generation = False

    def atom(self):
        r = self.random
        return r.choice([
            lambda: r.choice(self.NAMES), lambda: r.choice(self.NAMES),
            lambda: str(r.choice([0, 1, 2, -3, 10, 255])),
            lambda: r.choice(["1.5", "0.1", "1e3", "2.0", "1e-7", "1e22", "123456789.125"]),
            lambda: r.choice(["'x'", "'it\\'s'", '"q"', "'a\\nb'", "''", "'é'", "'\\u00df'",
                              "'%s|%d' % ('a', 2)", "'-' * 3", "'\\t\"'"]),
            lambda: "[" + ", ".join(self.expression(0) for _ in range(r.randrange(3))) + "]",
            lambda: "{'k': " + self.expression(0) + "}", lambda: "(1, 'a')",
            lambda: "range(3)|list", lambda: "namespace(a=1).a"])()

    def expression(self, depth):
        r = self.random
        if depth <= 0:
            return self.atom()
        inner = lambda: self.expression(depth - 1)
        return r.choice([
            lambda: self.atom(), lambda: f"{inner()} {r.choice(self.BINARY)} {inner()}",
            lambda: f"({inner()} {r.choice(self.BINARY)} {inner()})",
            lambda: f"({inner()})|{r.choice(self.FILTERS)}",
            lambda: f"{r.choice(self.NAMES)}|{r.choice(self.FILTERS)}",
            lambda: f"(({inner()}) is {r.choice(self.TESTS)})",
            lambda: f"({inner()}){r.choice([m for m in self.METHODS if ':' not in m])}",
            lambda: f"{r.choice('stdlm')}{r.choice(self.METHODS)}",
            lambda: f"(not {inner()})", lambda: f"-({inner()})",
            lambda: f"({inner()} if {inner()} else {inner()})",
            lambda: f"({inner()} if {inner()})"])()

    def plain(self):
        """An expression that has a value."""
        r = self.random
        return r.choice([
            lambda: r.choice(self.NAMES), lambda: str(r.randrange(-5, 300)), lambda: "'it\\'s'",
            lambda: f"({self.plain()} {r.choice(['==', '!=', 'and', 'or', '~'])} {self.plain()})",
            lambda: f"({self.plain()} if {self.plain()} else {self.plain()})",
            lambda: f"(({self.plain()}) is {r.choice(self.TESTS[:13])})", lambda: "s|upper",
            lambda: "[n, f, s]", lambda: "d.A.c[0] + n", lambda: "m[0].role", lambda: "l[1:]",
            lambda: "(loop.index is defined)", lambda: "(x is defined)", lambda: "t.split(',')"])()

    def tag(self, inside):
        left, right = (self.random.choice(["", "", "-", "+"]) for _ in "ab")
        return "{%" + left + " " + inside + " " + right + "%}"

    def text(self):
        return self.random.choice(["a", " ", "\n", "  \n  ", "x\n", "\n  ", "\t", "{# c #}",
                                   "{#- c -#}\n", "é ", "\n\n", "", "  {# c #}\n"])

    def body(self, depth, in_loop=False):
        return "".join(self.text() + self.statement(depth, in_loop) + self.text()
                       for _ in range(self.random.randrange(1, 4)))

    def generation(self, depth):
        """Not in another: transformers takes these to begin where the outer one does."""
        self.in_generation = True
        text = self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration")
        self.in_generation = False
        return text

    def statement(self, depth, in_loop=False):
        r = self.random
        e = self.plain
        out = lambda: r.choice(["{{ ", "{{- ", "{{"]) + e() + r.choice([" }}", " -}}", "}}"])
        if depth <= 0:
            return out()
        body = lambda loop=in_loop: self.body(depth - 1, loop)
        choices = [
            out, out,
            lambda: self.tag("if " + e()) + body() + self.tag("endif"),
            lambda: self.tag("if " + e()) + body() + self.tag("elif " + e()) + body() +
            self.tag("else") + body() + self.tag("endif"),
            lambda: self.tag("for x in " + r.choice(["l", "t", "d", "m", "e", "[1, 2]"])) +
            body(True) + self.tag("else") + body() + self.tag("endfor"),
            lambda: self.tag("for k, v in d.items()") + "{{ k }}={{ v }}" + body(True) +
            self.tag("endfor"),
            lambda: self.tag("for x in l if " + e()) +
            "{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex0 }}"
            "{{ loop.previtem is defined }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}" +
            body(True) + self.tag("endfor"),
            lambda: self.tag("set x = " + e()),
            lambda: self.tag("set x") + body(False) + self.tag("endset") + "{{ x }}",
            lambda: self.tag("set x | upper | trim") + body(False) + self.tag("endset") + "{{ x }}",
            lambda: self.tag("set x, y = 1, " + e()) + "{{ y }}",
            lambda: self.tag("macro g(a, b=" + e() + ")") + "{{ a }}{{ b }}" + body(False) +
            self.tag("endmacro") + "{{ g(1) }}{{ g(b=2, a=" + e() + ") }}",
            lambda: self.tag("set ns = namespace(v=0)") + self.tag("for i in [1, 2]") +
            self.tag("set ns.v = ns.v + i") + body(True) + self.tag("endfor") + "{{ ns.v }}",
        ]
        if not self.in_generation:
            choices.append(lambda: self.generation(depth))
        if in_loop:
            choices += [lambda: self.tag("if " + e()) +
                        self.tag(r.choice(["break", "continue"])) + self.tag("endif")]
        return r.choice(choices)()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--package", action="append", default=[])
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=2, help="differences of each template")
    options = parser.parse_args()
    for package in options.package:
        options.files += importlib.util.find_spec(package).submodule_search_locations
    ours = Ours(options.program)
    equal = count = pairs = refused = 0
    for file in options.files:
        for name, source in templates_in(file):
            wrong = []
            for kind, given in conversations().items():
                other, own = theirs(source, given), ours.render(source, given)
                pairs += "text" in other
                if not same(own, other):
                    wrong.append(f"  {kind}\n{difference(own, other)}")
                    refused += "refused" in own
            count += 1
            equal += not wrong
            if wrong:
                print(f"{file}: {name}: {len(wrong)} differ")
                print("\n".join(wrong[:options.show]))
    if options.files:
        print(f"{equal} of {count} templates are equal; {pairs} texts of jinja2's")
    maker = Maker(options.seed)
    same_random = texts = 0
    for i in range(options.random):
        source = "{{ " + maker.expression(3) + " }}" if i % 2 else maker.body(3)
        given = dict(messages=Maker.GIVEN["m"], kwargs=Maker.GIVEN)
        other, own = theirs(source, given), ours.render(source, given)
        texts += "text" in other
        same_random += same(own, other)
        if not same(own, other):
            print(f"random {i}: {source!r}\n{difference(own, other)}")
    if options.random:
        print(f"{same_random} of {options.random} random templates are equal; {texts} give a text")
    sys.exit(equal < count or same_random < options.random)


if __name__ == "__main__":
    main()
