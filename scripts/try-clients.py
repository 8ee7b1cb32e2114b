#!/usr/bin/env python3
"""The openai package of PyPI, unmodified, against a server: completions, chats, responses, streams, tools, structured
output, embeddings and errors; and what vLLM's clients add to them.

  scripts/try-clients.py [URL]    of `mt-generate serve`, with a chat template that has tools and with --max-body 1; else
                                  of one that it starts with testdata's llama

Needs openai (3.57) and pydantic.  Any model will do: what is checked holds for every one.  Exit code: 0, or 1 with the
check that failed.
"""
import atexit
import base64
import contextlib
import json
import struct
import sys
import tempfile

import openai
import pydantic
from local_server import PROGRAM, make_model, root, serving


def own_server():
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    model = make_model(stack.enter_context(tempfile.TemporaryDirectory()) + "/llama", 4096)
    template = str(root / "testdata/trl/masks/qwen2_5.jinja")
    return stack.enter_context(serving(PROGRAM, model, "--max-body", "1", "--chat-template", template))[1]


url = sys.argv[1] if len(sys.argv) > 1 else own_server()
client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
model = client.models.list().data[0].id


def check(what, truth):
    if not truth:
        sys.exit(f"{what}: failed")
    print(what)


def refused(kind, **fields):
    try:
        client.chat.completions.create(**{"model": model, "messages": hello, **fields})
    except kind as error:
        return "\n" not in error.body["message"] and error.body["type"]
    return False


hello = [{"role": "user", "content": "Hello"}]
asked = {"model": model, "prompt": "Once upon", "max_tokens": 12, "seed": 3}
whole = client.completions.create(**asked)
check("completions", whole.usage.completion_tokens <= 12 and whole.choices[0].finish_reason in ("stop", "length"))
parts = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
check("a stream of a completion", "".join(c.choices[0].text for c in parts if c.choices) == whole.choices[0].text)
check("its usage", parts[-1].usage == whole.usage)
several = client.completions.create(**{**asked, "prompt": ["A", "B"], "n": 2, "logprobs": 2, "echo": True})
check("several prompts and samples", [c.index for c in several.choices] == [0, 1, 2, 3])
check("log-probabilities", all(len(c.logprobs.tokens) == len(c.logprobs.token_logprobs) for c in several.choices))
raw = client.completions.with_raw_response.create(**asked)
check("a raw answer", raw.status_code == 200 and raw.parse().choices[0].text == whole.choices[0].text)

chat = {"model": model, "messages": hello, "max_tokens": 12, "seed": 3}
said = client.chat.completions.create(**chat).choices[0].message
parts = [c.choices[0] for c in client.chat.completions.create(**chat, stream=True)]
check("a chat and its stream", "".join(c.delta.content or "" for c in parts) == said.content)
check("who speaks", parts[0].delta.role == "assistant" and parts[-1].finish_reason is not None)


both = client.chat.completions.create(**chat, n=2).choices
parts = [c.choices[0] for c in client.chat.completions.create(**chat, n=2, stream=True)]
check("two answers in a stream", all("".join(c.delta.content or "" for c in parts if c.index == b.index) == b.message.content for b in both))
check("the first is the one alone", both[0].message.content == said.content)


def content(messages=hello, **fields):
    return client.chat.completions.create(**{**chat, "messages": messages, **fields}).choices[0].message.content


check("max_completion_tokens", len(client.chat.completions.create(
    model=model, messages=hello, max_completion_tokens=3, logprobs=True).choices[0].logprobs.content) <= 3)
check("parts of a message", content([{"role": "user", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}]) == said.content)
check("a developer's message", content([{"role": "developer", "content": "B"}, *hello]) == content([{"role": "system", "content": "B"}, *hello]))
check("what changes nothing", content(user="me", metadata={"a": "b"}, store=False, stop=None, service_tier="auto", tool_choice="none",
                                      safety_identifier="me", prompt_cache_key="me") == said.content)
check("vLLM's choice", content(extra_body={"guided_choice": ["yes it is", "no"]}) in ("yes it is", "no"))
check("its regex", content(extra_body={"structured_outputs": {"regex": "[ab]{3}-\\d"}})[3] == "-")
check("its schema", content(max_tokens=60, extra_body={"guided_json": {"const": {"a": [1]}}}) == '{"a":[1]}')
check("its tokens", client.chat.completions.create(**chat, extra_body={"min_tokens": 12, "ignore_eos": True, "top_k": 5, "min_p": 0.01,
                                                                       "repetition_penalty": 1.1}).usage.completion_tokens == 12)
check("a chat that goes on", content([*hello, {"role": "assistant", "content": "Well,"}], temperature=0, extra_body={
    "add_generation_prompt": False, "continue_final_message": True}) is not None)
check("a schema of a completion", client.completions.create(**{**asked, "max_tokens": 60}, extra_body={"response_format": {
    "type": "json_schema", "json_schema": {"name": "x", "schema": {"const": "abc"}}}}).choices[0].text == '"abc"')
check("alternatives of a prompt", client.completions.create(**asked, extra_body={"prompt_logprobs": 1}).choices[0].prompt_logprobs[0] is None)


class Person(pydantic.BaseModel):
    sort: str = pydantic.Field(pattern="^(cat|dog)$")
    legs: int = pydantic.Field(ge=0, le=9)


def schema_of(kind):
    schema = kind.model_json_schema()
    return {**schema, "additionalProperties": False}


for seed in range(5):
    answer = client.chat.completions.create(
        **{**chat, "seed": seed, "max_tokens": 100},
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": schema_of(Person)}})
    person = Person.model_validate_json(answer.choices[0].message.content)
    check(f"structured output, {person}", answer.choices[0].finish_reason == "stop")
parsed = client.chat.completions.parse(**{**chat, "max_tokens": 100}, response_format=Person)
check("parsed output", isinstance(parsed.choices[0].message.parsed, Person))

tools = [{"type": "function", "function": {"name": "weather", "description": "Says the weather.", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Bern", "Rome"]}, "days": {"type": "integer", "maximum": 9, "minimum": 1}},
    "required": ["city"], "additionalProperties": False}}}]
called = client.chat.completions.create(**{**chat, "max_tokens": 200}, tools=tools, tool_choice="required",
                                        parallel_tool_calls=False)
call = called.choices[0].message.tool_calls[0]
arguments = json.loads(call.function.arguments)
check(f"a tool, {call.function}", call.function.name == "weather" and arguments["city"] in ("Bern", "Rome"))
check("why it ends", called.choices[0].finish_reason == "tool_calls" and called.choices[0].message.content is None)
streamed = [c.choices[0] for c in client.chat.completions.create(
    **{**chat, "max_tokens": 200}, tools=tools, stream=True, parallel_tool_calls=False,
    tool_choice={"type": "function", "function": {"name": "weather"}})]
deltas = [d for c in streamed for d in c.delta.tool_calls or []]
check("a tool in a stream", deltas[0].function.name == "weather" and deltas[0].id.startswith("call_")
      and json.loads("".join(d.function.arguments for d in deltas)) == arguments)
check("why the stream ends", streamed[-1].finish_reason == "tool_calls")
again = client.chat.completions.create(**chat, tools=tools, tool_choice="none")
check("a tool that may not be called", again.choices[0].message.tool_calls is None)

asks = {"model": model, "input": "Hello", "max_output_tokens": 12, "extra_body": {"seed": 3}}
response = client.responses.create(**asks)
check("a response", response.output_text == said.content and response.usage.output_tokens <= 12)
events = list(client.responses.create(**asks, stream=True))
check("its stream", "".join(e.delta for e in events if e.type == "response.output_text.delta") == said.content)
check("how it ends", events[-1].response.output[0].content[0].text == said.content and [e.sequence_number for e in events] == list(range(len(events))))
parsed = client.responses.parse(**{**asks, "max_output_tokens": 100}, text_format=Person)
check("a parsed response", isinstance(parsed.output_parsed, Person))
called = client.responses.create(**{**asks, "max_output_tokens": 200}, tool_choice="required", parallel_tool_calls=False,
                                 tools=[{"type": "function", **tools[0]["function"]}]).output[0]
check("a response that calls", called.type == "function_call" and called.name == "weather" and json.loads(called.arguments) == arguments)
turns = [{"role": "user", "content": "Hello"}, called, {"type": "function_call_output", "call_id": called.call_id, "output": "rain"}]
check("a response to what was called", client.responses.create(**{**asks, "input": turns}).output_text is not None)

numbers = client.embeddings.create(model=model, input=["Hello", "there"], encoding_format="float").data
coded = client.embeddings.create(model=model, input=["Hello", "there"]).data  # base64, which the client reads
check("embeddings", all(abs(a - b) < 1e-6 for n, c in zip(numbers, coded) for a, b in zip(n.embedding, c.embedding)))
check("their lengths", all(abs(sum(x * x for x in n.embedding) - 1) < 1e-5 for n in numbers))
plain = client.embeddings.with_raw_response.create(model=model, input="Hello", encoding_format="base64").http_response.json()
code = base64.b64decode(plain["data"][0]["embedding"])
check("in base64", len(struct.unpack(f"<{len(code) // 4}f", code)) == len(numbers[0].embedding))

check("a model that there is not", refused(openai.NotFoundError, model="gpt-4"))
check("a wrong field", refused(openai.BadRequestError, temperature="hot"))
check("a schema that is not understood", refused(openai.BadRequestError, response_format={
    "type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "dependentSchemas": {}}}}))
check("functions of old", refused(openai.BadRequestError, functions=[{"name": "f"}]))
check("an effort that the template does not know", refused(openai.BadRequestError, reasoning_effort="high"))
check("a grammar of another kind", refused(openai.BadRequestError, extra_body={"guided_grammar": "root ::= a"}))
try:
    client.responses.create(**asks, previous_response_id="resp_1")
    check("a conversation that is not kept", False)
except openai.BadRequestError as error:
    check("a conversation that is not kept", error.body["param"] == "previous_response_id")
check("a wrong tool", refused(openai.BadRequestError, tools=[{"type": "function"}]))
check("a body that is too large", refused(openai.APIStatusError, user="x" * 2_000_000))
