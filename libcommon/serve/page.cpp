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
  body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; }
  h1 { font-size: 1.1rem; margin: 0 0 .8rem; font-weight: 600; }
  h1 small { font-weight: 400; opacity: .7; margin-left: .5rem; }
  textarea, #text { width: 100%; border: 1px solid var(--line); border-radius: .4rem;
    padding: .7rem; font: 15px/1.6 ui-monospace, monospace; background: transparent; color: inherit; }
  textarea { min-height: 8rem; resize: vertical; }
  #text { min-height: 8rem; white-space: pre-wrap; overflow-wrap: anywhere; margin-top: .8rem; }
  form { display: flex; flex-wrap: wrap; gap: .8rem; align-items: end; margin-top: .6rem; }
  label { display: grid; font-size: .8rem; opacity: .9; }
  input { width: 6.5rem; font: inherit; font-size: .95rem; padding: .25rem .4rem;
    border: 1px solid var(--line); border-radius: .3rem; background: transparent; color: inherit; }
  label.check { display: flex; gap: .4rem; align-items: center; font-size: .9rem; padding-bottom: .3rem; }
  label.check input { width: auto; }
  button { font: inherit; padding: .3rem 1rem; border-radius: .3rem; border: 1px solid var(--main);
    background: var(--main); color: #fff; cursor: pointer; }
  button:disabled { opacity: .4; cursor: default; }
  button.second { background: transparent; color: inherit; border-color: var(--line); }
  .token { border-radius: .15rem; cursor: pointer; }
  .token:hover, .token:focus-visible { outline: 1px solid var(--main); }
  #state { font-size: .85rem; opacity: .8; margin-top: .4rem; min-height: 1.3rem; }
  #others { position: absolute; border: 1px solid var(--line); border-radius: .4rem; padding: .4rem .7rem;
    background: Canvas; color: CanvasText; font: 14px/1.5 ui-monospace, monospace; box-shadow: 0 2px 10px #0004; }
  #others td { padding-right: 1rem; white-space: pre; }
  .wrong { color: #c33; }
</style>
<h1>mt <small id="name"></small></h1>
<textarea id="prompt" aria-label="Prompt" placeholder="A prompt. Ctrl+Enter continues it, Escape stops." autofocus></textarea>
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
</form>
<div id="state" role="status"></div>
<div id="text" aria-live="polite" aria-label="Text"></div>
<script>
'use strict';
const at = id => document.getElementById(id);
let running = null, others = null;

const key = () => at('key').value ? {Authorization: 'Bearer ' + at('key').value} : {};
async function who() {
  const answer = await fetch('/v1/models', {headers: key()});
  if (answer.status === 401) { at('keys').hidden = false; return; }
  const model = (await answer.json()).data[0];
  at('name').textContent = model.id + ', ' + model.max_model_len + ' tokens';
}
at('key').addEventListener('change', who);

function close() { if (others) others.remove(); others = null; }
function show(token, top) {
  close();
  others = document.createElement('div');
  others.id = 'others';
  const table = document.createElement('table');
  for (const [text, p] of Object.entries(top).sort((a, b) => b[1] - a[1])) {
    const row = table.insertRow();
    row.insertCell().textContent = JSON.stringify(text).slice(1, -1);
    row.insertCell().textContent = (100 * Math.exp(p)).toFixed(1) + ' %';
  }
  others.append(table);
  document.body.append(others);
  const box = token.getBoundingClientRect();
  const left = Math.max(0, Math.min(box.left, innerWidth - others.offsetWidth - 16));
  others.style.left = left + scrollX + 'px';
  others.style.top = box.bottom + scrollY + 4 + 'px';
}
function add(choice) {
  const probs = choice.logprobs;
  if (!probs || !at('colours').checked) { at('text').append(choice.text); return; }
  // The text is what counts; tokens share it out as far as they are characters of their own.
  let left = choice.text;
  probs.tokens.forEach((token, i) => {
    const last = i + 1 === probs.tokens.length;
    const part = last ? left : left.startsWith(token) ? token : '';
    left = left.slice(part.length);
    if (!part) return;
    const span = document.createElement('span');
    span.className = 'token';
    span.tabIndex = 0;
    span.textContent = part;
    const p = Math.exp(probs.token_logprobs[i]);
    span.style.background = `hsl(${120 * p} 70% 50% / 22%)`;
    span.title = (100 * p).toFixed(1) + ' %';
    span.onclick = event => { event.stopPropagation(); show(span, probs.top_logprobs[i]); };
    span.onkeydown = event => { if (event.key === 'Enter') show(span, probs.top_logprobs[i]); };
    at('text').append(span);
  });
}
async function go() {
  if (running) return;
  close();
  const number = id => at(id).value === '' ? undefined : Number(at(id).value);
  const body = {prompt: at('prompt').value, stream: true, stream_options: {include_usage: true},
    max_tokens: number('max_tokens'), temperature: number('temperature'), top_p: number('top_p'),
    top_k: number('top_k'), seed: number('seed'), logprobs: at('colours').checked ? 5 : undefined};
  running = new AbortController();
  at('go').disabled = true;
  at('stop').disabled = false;
  at('text').textContent = '';
  at('state').className = '';
  at('state').textContent = '';
  const begun = performance.now();
  let made = 0, reason = 'stopped';
  try {
    const answer = await fetch('/v1/completions', {method: 'POST', signal: running.signal,
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
      for (const event of events) {
        if (!event.startsWith('data: ') || event === 'data: [DONE]') continue;
        const chunk = JSON.parse(event.slice(6));
        if (chunk.error) throw new Error(chunk.error.message);
        if (chunk.usage) made = chunk.usage.completion_tokens;
        for (const choice of chunk.choices) {
          add(choice);
          if (choice.finish_reason) reason = choice.finish_reason;
        }
      }
    }
  } catch (error) {
    if (error.name !== 'AbortError') {
      reason = error.message;
      at('state').className = 'wrong';
    }
  }
  const seconds = (performance.now() - begun) / 1000;
  at('state').textContent = made ? `${made} tokens in ${seconds.toFixed(1)} s, ${reason}` : reason;
  running = null;
  at('go').disabled = false;
  at('stop').disabled = true;
}
const stop = () => { if (running) running.abort(); };
at('form').onsubmit = event => { event.preventDefault(); go(); };
at('stop').onclick = stop;
document.onclick = close;
document.onkeydown = event => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); go(); }
  if (event.key === 'Escape') { close(); stop(); }
};
who();
</script>
</html>
)html";

}  // namespace mt
