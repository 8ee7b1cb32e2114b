#!/usr/bin/env python3
"""The page of `mt-generate serve` in Debian's chromium, as a user meets it: a prompt is typed and its text comes as it is
made, tokens say what else was likely, an answer is stopped, a chat goes on with what was said before, a key is asked for.

  scripts/try-page.py [--program BIN] [--folder DIR]
    DIR gets screenshots of 1280 and of 380 pixels, light and dark, to look at

Needs playwright (1.65) from PyPI, and Debian's chromium.  The model is testdata's llama with room for long texts: what is
checked holds for every one.  Exit code: 0, or 1 with the check that failed.
"""
import argparse
import contextlib
import json
import pathlib
import re
import shutil
import sys
import tempfile
import time
import urllib.request

from local_server import PROGRAM, make_model, serving
from playwright.sync_api import sync_playwright

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--program", default=PROGRAM)
parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("screenshots"))
options = parser.parse_args()


def check(what, truth):
    if not truth:
        sys.exit(f"{what}: failed")
    print(what)


def metric(url, name):
    with urllib.request.urlopen(url + "/metrics") as answer:
        return float(re.search(rf"^mt_{name} (.*)$", answer.read().decode(), re.M)[1])


@contextlib.contextmanager
def page_at(browser, url, wide=True, dark=False):
    """A page that asks nobody but the server and says nothing on its console.  Its texts end by no token of a random model."""
    context = browser.new_context(viewport={"width": 1280 if wide else 380, "height": 800 if wide else 760},
                                  color_scheme="dark" if dark else "light")
    page = context.new_page()
    outside, said = [], []
    page.on("request", lambda r: outside.append(r.url) if not r.url.startswith((url, "data:")) else None)
    page.on("console", lambda m: said.append(m.text))
    page.on("pageerror", lambda e: said.append(str(e)))
    page.route("**/completions", lambda r: r.continue_(post_data=json.dumps({**r.request.post_data_json, "ignore_eos": True})))
    page.goto(url + "/")
    yield page
    check("nothing from outside", outside == [])
    check("no complaint but of status 400 and 401", all(re.search(r"status of 40[01]", text) for text in said))
    context.close()


def wait_until(page, expression):
    """As wait_for_function(), which the page's policy of content forbids."""
    end = time.monotonic() + 30
    while not page.evaluate(expression):
        if time.monotonic() > end:
            sys.exit(f"{expression}: not in 30 s")
        time.sleep(0.02)


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def wait_for_end(page):
    wait_until(page, "document.getElementById('stop').disabled && document.getElementById('state').textContent")
    return page.inner_text("#state")


def wait_for_growth(page, place):
    """It has a text, and later a longer one, before the answer has ended."""
    for length in (20, 500):
        wait_until(page, f"document.querySelector('{place}').textContent.length > {length}")
        check(f"{length} letters of a text that goes on", page.is_enabled("#stop"))


def try_prompt(page, url, shot):
    page.keyboard.type("Hello my dear")  # the prompt has the focus
    page.fill("#max_tokens", "60")
    page.fill("#seed", "7")
    page.focus("#prompt")
    page.keyboard.press("Control+Enter")
    state = wait_for_end(page)
    check(f"a prompt: {state}", re.fullmatch(r"\d+ tokens in [\d.]+ s, (length|stop)", state))
    plain = page.evaluate("[...document.querySelectorAll('#text .token')].filter(t => !t.style.background || !t.title.endsWith(' %')).length")
    check("tokens in colours", page.locator("#text .token").count() > 5 and plain == 0)
    page.focus("#text .token")
    page.keyboard.press("ArrowRight")
    check("arrows go from token to token", page.evaluate("document.activeElement === document.querySelectorAll('#text .token')[1]"))
    page.keyboard.press("Enter")
    check("what else was likely", page.locator("#others tr").count() >= 5 and " %" in page.inner_text("#others"))
    page.locator("#text .token").nth(5).click()
    check("by a click, too", page.locator("#others tr").count() >= 5)
    check("no wider than the window", fits(page))
    page.screenshot(path=options.folder / f"prompt-{shot}.png", full_page=True)
    page.keyboard.press("Escape")
    check("Escape closes it", page.locator("#others").count() == 0)
    once = page.inner_text("#text")
    page.focus("#prompt")
    page.keyboard.press("Control+Enter")
    wait_for_end(page)
    check("the same seed, the same text", page.inner_text("#text") == once)
    page.fill("#max_tokens", "60000")
    page.focus("#prompt")
    page.keyboard.press("Control+Enter")
    wait_for_growth(page, "#text")
    page.keyboard.press("Escape")
    check("Escape stops", wait_for_end(page) == "stopped")
    time.sleep(0.5)
    check("at the server, too", metric(url, "requests_running") == 0 and metric(url, "requests_cancelled_total") > 0)
    page.fill("#max_tokens", "100000")
    page.focus("#prompt")
    page.keyboard.press("Control+Enter")
    check(f"what is wrong: {wait_for_end(page)}", "max_tokens" in page.inner_text("#state"))


def try_chat(page, shot):
    bodies = []
    page.on("request", lambda r: bodies.append(json.loads(r.post_data)) if r.url.endswith("/chat/completions") else None)
    page.click("#chats")
    page.fill("#max_tokens", "30")
    page.fill("#system", "Be kind.")
    page.focus("#message")
    page.keyboard.type("Hello, who")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("are you?")
    page.keyboard.press("Enter")
    state = wait_for_end(page)
    check(f"a chat: {state}", re.match(r"\d+ tokens in", state))
    check("what was asked", bodies[-1]["messages"] == [{"role": "system", "content": "Be kind."},
                                                       {"role": "user", "content": "Hello, who\nare you?"}])
    first = page.inner_text("#talk .assistant .text")
    page.keyboard.type("What day is it?")  # the message has the focus still
    page.keyboard.press("Enter")
    wait_for_end(page)
    roles = [(m["role"], m["content"]) for m in bodies[-1]["messages"]]
    check("what was said before", [role for role, _ in roles] == ["system", "user", "assistant", "user"] and roles[2][1].strip() == first.strip())
    page.locator("#talk .assistant .token").nth(3).click()
    check("what else was likely in a chat", page.locator("#others tr").count() >= 5)
    check("no wider than the window in a chat", fits(page))
    page.screenshot(path=options.folder / f"chat-{shot}.png", full_page=True)
    page.keyboard.press("Escape")
    page.click("#again")
    wait_for_end(page)
    check("again", len(bodies[-1]["messages"]) == 4 and page.locator("#talk li").count() == 4)
    page.fill("#max_tokens", "60000")
    page.fill("#message", "Go on for long")
    page.focus("#message")
    page.keyboard.press("Enter")
    wait_for_growth(page, "#talk li:last-child .text")
    page.click("#stop")
    check("Stop", wait_for_end(page) == "stopped" and len(page.inner_text("#talk li:last-child .text")) > 20)
    page.fill("#temperature", "1000")
    page.fill("#message", "Too hot")
    page.focus("#message")
    page.keyboard.press("Enter")
    check(f"what is wrong in a chat: {wait_for_end(page)}", "temperature" in page.inner_text("#state"))
    check("a message that was not heard", page.input_value("#message") == "Too hot" and page.locator("#talk li").count() == 6)
    told = page.inner_text("#talk li:last-child .text")
    page.click("#again")
    check(f"Again, which fails: {wait_for_end(page)}", page.locator("#talk li").count() == 6)
    check("the answer before is still there", page.inner_text("#talk li:last-child .text") == told)
    page.click("#clear")
    check("Clear", page.locator("#talk li").count() == 0)
    page.click("#prompts")
    check("back at the prompt", page.is_visible("#prompt") and not page.is_visible("#message"))


def try_key(page, shot):
    page.wait_for_selector("#keys:not([hidden])")
    check("a key is asked for", "key" in page.inner_text("#state"))
    page.fill("#prompt", "Hello")
    page.fill("#key", "wrong")
    page.click("#go")
    check(f"a wrong key: {wait_for_end(page)}", "key" in page.inner_text("#state"))
    page.fill("#key", "first")
    page.focus("#prompt")
    wait_until(page, "document.getElementById('name').textContent")
    page.screenshot(path=options.folder / f"key-{shot}.png", full_page=True)
    page.keyboard.press("Control+Enter")
    check("the right one", "tokens in" in wait_for_end(page))
    kept = page.evaluate("localStorage.length + sessionStorage.length + document.cookie.length")
    check("it is kept in memory alone", kept == 0)


def main():
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as play:
        model = make_model(pathlib.Path(scratch) / "llama", 1 << 16)  # a text of so many tokens takes seconds
        keys = pathlib.Path(scratch) / "keys"
        keys.write_text("first\n")
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with serving(options.program, model) as (_, url):
            for shot, wide, dark in (("wide", True, False), ("narrow", False, True)):
                with page_at(browser, url, wide, dark) as page:
                    wait_until(page, "document.getElementById('name').textContent")
                    check("no key is asked for", not page.is_visible("#keys"))
                    try_prompt(page, url, shot)
                    try_chat(page, shot)
        with serving(options.program, model, "--api-key-file", str(keys)) as (_, url), page_at(browser, url, dark=True) as page:
            try_key(page, "wide")


main()
