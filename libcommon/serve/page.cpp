#include "serve/page.h"

namespace mt {

const std::string_view kPage = R"html(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>mt</title>
<link rel="icon" href="data:,">
<style>
  :root { color-scheme: light dark; --line: #8886; --soft: #8882; --main: #0a7d55; }
  * { box-sizing: border-box; }
  [hidden] { display: none !important; }
  body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; }
  header { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; margin-bottom: .8rem; }
  h1 { flex: 1; font-size: 1.1rem; margin: 0; font-weight: 600; overflow-wrap: anywhere; }
  h1 small { font-weight: 400; opacity: .7; margin-left: .5rem; }
  textarea, .text { width: 100%; border: 1px solid var(--line); border-radius: .4rem;
    padding: .7rem; font: 15px/1.6 ui-monospace, monospace; background: transparent; color: inherit; }
  textarea { min-height: 8rem; resize: vertical; }
  #system, #message { min-height: 3.5rem; }
  .text { min-height: 3rem; white-space: pre-wrap; overflow-wrap: anywhere; }
  #text { min-height: 8rem; margin-top: .8rem; }
  #talk { list-style: none; margin: .6rem 0; padding: 0; display: grid; gap: .6rem; }
  #talk b { font-size: .8rem; font-weight: 600; opacity: .9; }
  #talk .user .text { background: var(--soft); }
  form { display: flex; flex-wrap: wrap; gap: .8rem; align-items: end; padding: .6rem 0; background: Canvas; }
  form:has(#stop:enabled) { position: sticky; bottom: 0; }
  label { display: grid; font-size: .8rem; }
  input { width: 6.5rem; font: inherit; font-size: .95rem; padding: .25rem .4rem;
    border: 1px solid var(--line); border-radius: .3rem; background: transparent; color: inherit; }
  label.check { display: flex; gap: .4rem; align-items: center; font-size: .9rem; padding-bottom: .3rem; }
  label.check input { width: auto; }
  button { font: inherit; padding: .3rem 1rem; border-radius: .3rem; border: 1px solid var(--main);
    background: var(--main); color: #fff; cursor: pointer; }
  button:disabled { opacity: .4; cursor: default; }
  button.second, button[aria-pressed=false] { background: transparent; color: inherit; border-color: var(--line); }
  .token { border-radius: .15rem; cursor: pointer; }
  .token:hover, .token:focus-visible { outline: 1px solid var(--main); }
  .thought { border-left: 3px solid var(--line); padding-left: .7rem; margin-bottom: .6rem; font-style: italic; opacity: .8; }
  #state { font-size: .85rem; opacity: .9; margin-top: .4rem; min-height: 1.3rem; overflow-wrap: anywhere; }
  #others { position: absolute; border: 1px solid var(--line); border-radius: .4rem; padding: .4rem .7rem;
    background: Canvas; color: CanvasText; font: 14px/1.5 ui-monospace, monospace; box-shadow: 0 2px 10px #0004; }
  #others td { padding-right: 1rem; white-space: pre; }
  .wrong { color: light-dark(#b02020, #ff9a90); }
</style>
<header>
  <h1>mt <small id="name"></small></h1>
  <button id="prompts" type="button" aria-pressed="true">Prompt</button>
  <button id="chats" type="button" aria-pressed="false">Chat</button>
</header>
<main id="continuing">
  <textarea id="prompt" aria-label="Prompt" placeholder="A prompt. Ctrl+Enter continues it, Escape stops." autofocus></textarea>
</main>
<main id="talking" hidden>
  <label>system prompt<textarea id="system" placeholder="What the model is told before all messages; may be empty."></textarea></label>
  <ol id="talk" aria-live="polite" aria-label="Messages"></ol>
  <textarea id="message" aria-label="Message" placeholder="Enter sends it, Shift+Enter breaks a line, Escape stops."></textarea>
</main>
<form id="form">
  <label>tokens<input id="max_tokens" type="number" min="1" value="128"></label>
  <label>temperature<input id="temperature" type="number" min="0" max="100" step="0.05" value="0.8"></label>
  <label>top-p<input id="top_p" type="number" min="0.01" max="1" step="0.01" value="0.95"></label>
  <label>top-k<input id="top_k" type="number" min="0" value="0"></label>
  <label>seed<input id="seed" type="number" placeholder="any"></label>
  <label id="keys" hidden>API key<input id="key" type="password" autocomplete="off"></label>
  <label class="check"><input id="colours" type="checkbox" checked>probabilities</label>
  <button id="go">Continue</button>
  <button id="stop" class="second" type="button" disabled>Stop</button>
  <button id="again" class="second" type="button" hidden>Again</button>
  <button id="clear" class="second" type="button" hidden>Clear</button>
</form>
<div id="state" role="status"></div>
<div id="text" class="text" aria-live="polite" aria-label="Text"></div>
<script>
'use strict';
const at = id => document.getElementById(id);
let running = null, others = null;
let messages = [];  // of the chat, but for the system prompt: each with its role, its content and its item on the page

const key = () => at('key').value ? {Authorization: 'Bearer ' + at('key').value} : {};
function tell(text, wrong) {
  at('state').className = wrong ? 'wrong' : '';
  at('state').textContent = text;
}
async function who() {
  const answer = await fetch('/v1/models', {headers: key()});
  if (answer.status === 401) {
    at('keys').hidden = false;
    tell('This server asks for an API key.', at('key').value !== '');
    return;
  }
  if (!answer.ok) return;
  const model = (await answer.json()).data[0];
  at('name').textContent = model.id + ', ' + model.max_model_len + ' tokens';
  if (!running) tell('');
}
at('key').addEventListener('change', who);

// --- Tokens and what else was likely ---

function close() { if (others) others.remove(); others = null; }
function show(token, top) {
  close();
  others = document.createElement('div');
  others.id = 'others';
  others.setAttribute('role', 'status');
  const table = document.createElement('table');
  for (const [text, p] of top) {
    const row = table.insertRow();
    row.insertCell().textContent = text.replace(/[\0-\x1f]/g, c => JSON.stringify(c).slice(1, -1));
    row.insertCell().textContent = (100 * Math.exp(p)).toFixed(1) + ' %';
  }
  others.append(table);
  document.body.append(others);
  const box = token.getBoundingClientRect();
  const left = Math.max(0, Math.min(box.left, innerWidth - others.offsetWidth - 16));
  others.style.left = left + scrollX + 'px';
  others.style.top = box.bottom + scrollY + 4 + 'px';
}
// As completions and as chats say them: each token's text, its log-probability and the likeliest instead of it.
function tokens_of(probs) {
  if (!probs) return [];
  if (probs.content)
    return probs.content.map(t => ({text: t.token, p: t.logprob, top: t.top_logprobs.map(o => [o.token, o.logprob])}));
  return probs.tokens.map((text, i) => ({text, p: probs.token_logprobs[i],
    top: Object.entries(probs.top_logprobs[i]).sort((a, b) => b[1] - a[1])}));
}
function add(place, text, tokens) {
  if (!tokens.length) { place.append(text); return; }
  // The text is what counts; tokens share it out as far as they are characters of their own.
  let left = text;
  tokens.forEach((token, i) => {
    const last = i + 1 === tokens.length;
    const part = last ? left : left.startsWith(token.text) ? token.text : '';
    left = left.slice(part.length);
    if (!part) return;
    const span = document.createElement('span');
    span.className = 'token';
    span.tabIndex = place.querySelector('.token') ? -1 : 0;  // arrows lead to the others
    span.textContent = part;
    const p = Math.exp(token.p);
    span.style.background = `hsl(${120 * p} 70% 50% / 22%)`;
    span.title = (100 * p).toFixed(1) + ' %';
    span.onclick = event => { event.stopPropagation(); show(span, token.top); };
    span.onkeydown = event => {
      const to = {ArrowLeft: 'previousElementSibling', ArrowRight: 'nextElementSibling'}[event.key];
      if (event.key === 'Enter') show(span, token.top);
      if (!to || !span[to]) return;
      event.preventDefault();
      close();
      span.tabIndex = -1;
      span[to].tabIndex = 0;
      span[to].focus();
    };
    place.append(span);
  });
}

// What a chat's model thinks, in front of its answer.
function thoughts_in(place) {
  const there = place.querySelector('.thought') || document.createElement('div');
  there.className = 'thought';
  if (!there.parentNode) place.append(there);
  return there;
}

// --- Asking ---

// What follows goes to `place` as it comes; returns its text, or null where nothing did and that is no wish of the user's.
async function ask(route, asked, place) {
  close();
  const number = id => at(id).value === '' ? undefined : Number(at(id).value);
  const body = {...asked, stream: true, stream_options: {include_usage: true}, max_tokens: number('max_tokens'),
    temperature: number('temperature'), top_p: number('top_p'), top_k: number('top_k'), seed: number('seed')};
  running = new AbortController();
  update();
  tell('');
  const begun = performance.now();
  let said = '', made = 0, reason = 'stopped', wrong = false;
  try {
    const answer = await fetch(route, {method: 'POST', signal: running.signal,
      headers: {'Content-Type': 'application/json', ...key()}, body: JSON.stringify(body)});
    if (answer.status === 401) at('keys').hidden = false;
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let buffer = '';;) {
      const {value, done} = await reader.read();
      if (done) break;
      buffer += value;
      const events = buffer.split('\n\n');
      buffer = events.pop();
      const below = innerHeight + scrollY + 8 >= document.body.scrollHeight;
      for (const event of events) {
        if (!event.startsWith('data: ') || event === 'data: [DONE]') continue;
        const chunk = JSON.parse(event.slice(6));
        if (chunk.error) throw new Error(chunk.error.message);
        if (chunk.usage) made = chunk.usage.completion_tokens;
        for (const choice of chunk.choices) {
          const text = choice.delta ? choice.delta.content || '' : choice.text;
          const thought = choice.delta && choice.delta.reasoning_content, tokens = tokens_of(choice.logprobs);
          if (thought) add(thoughts_in(place), thought, text ? [] : tokens);
          add(place, text, thought && !text ? [] : tokens);
          said += text;
          if (choice.finish_reason) reason = choice.finish_reason;
        }
      }
      if (below) scrollTo(0, document.body.scrollHeight);
    }
  } catch (error) {
    wrong = error.name !== 'AbortError';
    if (wrong) reason = error.message;
  }
  const seconds = (performance.now() - begun) / 1000;
  tell(made ? `${made} tokens in ${seconds.toFixed(1)} s, ${reason}` : reason, wrong);
  running = null;
  update();
  return wrong && !said ? null : said;
}
async function go() {
  if (running) return;
  if (is_chat()) return send();
  at('text').textContent = '';
  await ask('/v1/completions', {prompt: at('prompt').value, logprobs: at('colours').checked ? 5 : undefined}, at('text'));
}

// --- The chat ---

const is_chat = () => !at('talking').hidden;
function put(role, content) {
  const item = document.createElement('li'), name = document.createElement('b'), text = document.createElement('div');
  item.className = role;
  name.textContent = role;
  text.className = 'text';
  text.textContent = content;
  item.append(name, text);
  at('talk').append(item);
  const message = {role, content, item};
  messages.push(message);
  return message;
}
function take_back() {
  const message = messages.pop();
  message.item.remove();
  return message;
}
async function send() {
  const content = at('message').value;
  if (!content) return;
  at('message').value = '';
  put('user', content);
  if (await answer()) return;
  take_back();  // it was not heard
  if (!at('message').value) at('message').value = content;
  update();
}
async function answer() {
  const heard = messages.map(({role, content}) => ({role, content}));
  if (at('system').value) heard.unshift({role: 'system', content: at('system').value});
  const message = put('assistant', '');
  const probs = at('colours').checked ? {logprobs: true, top_logprobs: 5} : {};
  const said = await ask('/v1/chat/completions', {messages: heard, ...probs}, message.item.lastChild);
  if (said === null) take_back();
  else message.content = said;
  return said !== null;
}
async function again() {
  if (running || !messages.length) return;
  const before = messages.at(-1).role === 'assistant' ? take_back() : null;
  if (await answer() || !before) return;
  messages.push(before);  // no other came
  at('talk').append(before.item);
  update();
}
function clear() {
  while (messages.length) take_back();
  tell('');
  update();
  at('message').focus();
}

// --- Buttons and keys ---

function update() {
  at('go').textContent = is_chat() ? 'Send' : 'Continue';
  at('go').disabled = running !== null;
  at('stop').disabled = running === null;
  for (const id of ['again', 'clear']) {
    at(id).hidden = !is_chat();
    at(id).disabled = running !== null || !messages.length;
  }
  for (const id of ['prompts', 'chats']) {
    at(id).setAttribute('aria-pressed', (id === 'chats') === is_chat());
    at(id).disabled = running !== null;
  }
}
function change(chat) {
  close();
  at('continuing').hidden = at('text').hidden = chat;
  at('talking').hidden = !chat;
  tell('');
  update();
  at(chat ? 'message' : 'prompt').focus();
}
const stop = () => { if (running) running.abort(); };
at('prompts').onclick = () => change(false);
at('chats').onclick = () => change(true);
at('form').onsubmit = event => { event.preventDefault(); go(); };
at('stop').onclick = stop;
at('again').onclick = again;
at('clear').onclick = clear;
document.onclick = close;
document.onkeydown = event => {
  const sends = event.ctrlKey || event.metaKey || (event.target === at('message') && !event.shiftKey);
  if (event.key === 'Enter' && sends && !event.isComposing) { event.preventDefault(); go(); }
  if (event.key === 'Escape') { close(); stop(); }
};
who();
</script>
</html>
)html";

}  // namespace mt
