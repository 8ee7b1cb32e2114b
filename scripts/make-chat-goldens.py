#!/usr/bin/env python3
"""make-chat-goldens.py: writes testdata/chat-templates.jsonl, small chat templates of every construct
with what jinja2 makes of them as transformers sets it up.

  scripts/make-chat-goldens.py > testdata/chat-templates.jsonl

Needs jinja2 3.1.6 and transformers 5.24.
"""
import importlib.util
import json
import pathlib

import jinja2
import transformers

spec = importlib.util.spec_from_file_location(
    "compare_templates", pathlib.Path(__file__).with_name("compare-templates.py"))
compare = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare)

M = "{% for m in messages %}"
EXPRESSIONS = """
{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** -1 }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }} {{ 'ab' * 2 }} {{ [1] * 3 }} {{ 10 / 4 }} {{ 6 % 4 }} {{ +3 }}
{{ 'a' ~ 1 ~ none ~ true }} {{ 'a' + 'b' }} {{ [1] + [2, 3] }} {{ (1,) + (2,) }}
{{ [1,'x',none,true,1.5] }} {{ {'a': 1, 'b': [1,2]} }} {{ () }} {{ [] }} {{ {} }}
{{ {'b': 1, 'a': {'c': [1]}} | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ {'a': []} | tojson(indent=1) }}
{{ {'é': 'ü<>&"\\n\\u2028', 'b': [1.0, none, true, 1e20]} | tojson }} {{ 'é🙂' | tojson(ensure_ascii=true) }}
{{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':')) }} {{ {1: 'x', none: 2, true: 3} | tojson }}
{{ 'abc'[::-1] }} {{ [1,2,3][1:] }} {{ 'abc'[-1] }} {{ 'abcdef'[1:5:2] }} {{ 'wörld'[1] }} {{ 'wörld'[-4:] }}
{{ 'a,b,,c'.split(',') }}|{{ 'a b  c'.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ ' a b '.split(' ') }}
{{ 'a,b,c'.rsplit(',', 1) }} {{ 'a--b'.partition('--') }} {{ 'ab'.partition('-') }} {{ 'a\\nb\\r\\nc\\n'.splitlines() }}
{{ 'x' if false }}|{{ m.a.b is defined }}|{{ m['zz'] is undefined }}|{{ m.get('zz', 5) }}|{{ m.get('a') }}
{{ '' or 'd' }} {{ 0 and 1 }} {{ [] or none }} {{ not 1 }} {{ not '' }} {{ 1 and 'x' }}
{{ m.missing | default('D') }} {{ '' | default('D', true) }} {{ none | default('D') }} {{ nothing | default }}|{{ x | d(3) }}
{{ 'a' is iterable }}{{ m is sequence }}{{ 'a' is sequence }}{{ 1 == 1.0 }}{{ 0 is false }}{{ 1 is iterable }}{{ m is mapping }}
{{ ['a',none]|join(',') }} {{ [{'a':1},{'a':2}]|map(attribute='a')|list }} {{ [0,1,2]|select|list }}
{{ 'hello-wOrld x'|title }} {{ '12x'|int }} {{ 1.0|string }} {{ ('a','b') }} {{ (1,) }} {{ ['it\\'s'] }} {{ ['a"b\\'c'] }}
{{ 1.0 }} {{ 0.1+0.2 }} {{ 1e20 }} {{ 5 / 1 }} {{ 1e-5 }} {{ 1e16 }} {{ 123456789.125 }} {{ 1e22 }} {{ -0.0 }} {{ 1e15 }} {{ 0.0001 }}
{{ messages[0].role }} {{ messages[-1:] }} {{ messages[1]['content'] }} {{ messages | length }} {{ messages[5] is defined }}
{{ 1 < 2 < 3 }} {{ 3 > 2 >= 2 }} {{ 1 != 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 in [1, 2] }} {{ 'b' in 'abc' }} {{ 'a' not in {'a': 1} }}
{{ 7 is odd }} {{ 8 is even }} {{ 1 is number }} {{ 1.5 is float }} {{ 1 is integer }} {{ true is boolean }} {{ none is none }} {{ 'x' is string }} {{ 1 is eq 1 }} {{ 2 is in [1, 2] }} {{ 1 is ne 1 }} {{ true is true }} {{ x is not defined }}
{{ ' a '|trim }}|{{ 'xaxx'|trim('x') }}|{{ 'ab'|upper }}|{{ 'ÀB'|lower }}|{{ 'straße'|upper }}|{{ 'ΑΣ'.lower() }}|{{ 'hELLO wORLD'.capitalize() }}|{{ "they're ǆ".title() }}
{{ ' a '.strip() }}|{{ 'xax'.lstrip('x') }}|{{ 'xax'.rstrip('x') }}|{{ '\\u00a0a\\u2003'.strip() }}|{{ 'abc'.startswith('ab') }}|{{ 'abc'.endswith(('x', 'c')) }}|{{ 'abc'.startswith('b', 1) }}
{{ 'banana'.replace('a', 'o') }} {{ 'banana'.replace('a', 'o', 2) }} {{ 'ab'.replace('', '-') }} {{ 'banana'|replace('an', 'AN', 1) }} {{ 'banana'.find('n') }} {{ 'banana'.find('z') }} {{ 'banana'.count('an') }} {{ '-'.join(['a', 'b']) }} {{ '12'.isdigit() }} {{ '1.2'.isdigit() }}
{{ '{} {1}'.format('a', 'b') }}
{{ '{1} {}'.format('a', 'b') }}
{{ '{}-{} {n} {{}}'.format('a', 2, n=none) }} {{ 'a{}'.format(1.5) }}
{{ '{0} {1!r} {n:>5}|{f:.2f}|{k:,}|{s:^7}|{s:*<4}|{d[a]}|{z:05d}|{p:.1%}'.format('a', 'b', n=1, f=2, k=1234567, s='x', d={'a': 1}, z=-42, p=0.256) }}
{{ '{:05}|{:>05}|{:x<05}|{:<05}|{:05}|{:>5}|{:,}|{:+}|{: }|{: <4}|'.format('12', -3, '12', 2.5, true, true, true, 2, 3, 4) }}
{{ '{:010,}|{:08,}|{:012,.2f}|{:+09,}|{:04,}|{:07,}|{:<06,}'.format(1234, 1234, 1234.5, -1234, 1234567, 12, 1234) }}
{{ '{:,}'.format('12') }}
{{ '{:+}'.format('12') }}
{{ +(-0.0) }} {{ -0.0 | round(0, 'floor') }} {{ -0.5 | round(0, 'ceil') }}
{{ '%s is %d, %5.1f%% %r %05d %x' % ('a', 3, 2.25, 'q', 42, 255) }} {{ '%s' % 'x' }} {{ '%(a)s' % {'a': 1} }}
{{ d | dictsort }} {{ d.items() | list }} {{ d.keys() | list }} {{ d.values() | list }} {{ d | items | list }} {{ d | list }} {{ d | dictsort(true) }} {{ {'a': 1, 'b': 2} | dictsort(by='value', reverse=true) }}
{{ d.items() }} {{ d.keys() }} {{ range(3) }} {{ range(1, 7, 2) | list }} {{ range(3, 0, -1) | list }}
{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }} {{ [1, 2] | sort(reverse=true) }} {{ l | sort(attribute='k') | map(attribute='n') | join }} {{ ['a', 'A', 'b'] | unique | list }} {{ [3, 1] | min }} {{ [3, 1] | max }}
{{ l | selectattr('k') | list }} {{ l | selectattr('k', 'equalto', 2) | map(attribute='n') | list }} {{ l | rejectattr('k', 'defined') | list }} {{ [1, 2, 3] | reject('odd') | list }} {{ ['a', 'b'] | map('upper') | list }} {{ [1, 2] | sum }} {{ l | sum(attribute='k') }} {{ l | map(attribute='zz', default='-') | join }}
{{ [1, 2] | first }} {{ 'xyz' | last }} {{ [] | first }}|{{ [] | last }}|{{ [3, 4] | reverse | list }} {{ 'abc' | reverse }} {{ [1, 2] | count }}
{{ 'a\\n\\nb' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | indent(1, blank=true) }}|{{ 'a\\nb' | indent('> ') }}
{{ 2.5 | round }} {{ 2.675 | round(2) }} {{ 42.55 | round(1, 'floor') }} {{ 1.1 | round(0, 'ceil') }} {{ 3 | round }} {{ -3 | abs }} {{ -2.5 | abs }} {{ '3.7' | float }} {{ 'x' | float }} {{ '3.9' | int }} {{ 3.9 | int }} {{ ' 42 ' | int }} {{ 'ff' | int(base=16) }} {{ 'x' | int(7) }} {{ true | int }}
{{ '<a> & "b"' | e }} {{ '<a>' | safe }} {{ '<a>' | safe + '<b>' }} {{ '<' ~ ('<' | safe) }} {{ ('<' | e) | e }} {{ 'x' | string | length }}
{{ d['items'] }} {{ d.A.c }} {{ d['A']['c'][0] }} {{ d.nothing is defined }}
{{ d.A.nothing.more is defined }}
{{ 1_000 }} {{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1.5e3 }} {{ 2e-3 }} {{ 'a' 'b' }} {{ "q\\"q" }} {{ 'tab\\tx\\x41\\u00e9\\101' }} {{ 'back\\\\slash \\d' }}
{{ dict(a=1, b=2) }} {{ dict([('x', 1)]) }} {{ dict({'a': 1}, b=3) }} {{ namespace(a=1).a }} {{ namespace() }}
{{ true and false or true }} {{ 1 if true else 2 if false else 3 }} {{ (1 if false else 2) }} {{ [1 if true else 2, 3] }} {{ {'a': 1,}['a'] }} {{ [1, 2,] }}
{{ messages | tojson }} {{ messages | string }} {{ messages | map(attribute='role') | join(', ') }} {{ messages | selectattr('role', '==', 'user') | list | length }}
{{ '日本語'[1:] }} {{ '日本語' | length }} {{ '👩‍👩‍👧' | length }} {{ ['é', '\\n', '\\x00', '\\u200b', '🙂'] }} {{ 'ﬁ' | upper }} {{ 'ǆ' | capitalize }}
{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %b %Y') }} {{ bos_token }} {{ eos_token }}
{{ m.a.c }}{{ m['a'].c }}{{ m.a['c'] }} {{ 5.0 is integer }} {{ 'a' is in 'abc' }} {{ none is mapping }} {{ 1 }}{{ 'x', 1 }}
{{ x.y }}
{{ none.y.z }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ 1 // 0 }}
{{ 1 < 'a' }}
{{ none | length }}
{{ x() }}
{{ {'a': x} | tojson }}
{{ messages.append(1) }}
{{ raise_exception('No: ' ~ messages | length) }}
{{ [1, 2][5].x }}
{{ 'x'.split('') }}
{{ 1 in 5 }}
{{ {[1]: 2} }}
{{ range(100001) }}
{{ -none }}
{{ 'abc' | int | odd }}
""".strip().split("\n")

STATEMENTS = [
    "{% for x in [1,2] %}\n  {{ x }}\n{% endfor %}\nend",
    "a\n  {%- if true %}  b  {%- endif -%}  \n c", "  {% if true %}\nX\n  {% endif %}\nY\n",
    "  {% if true +%}\nX\n  {%+ endif %}\nY\n\n", "a {#- c -#} b\n  {# c #}\nd {# c +#}\ne",
    "{{ 1 }}\n{{ 2 -}}\n {{- 3 }}\n", "x\r\ny\rz {{ 'a\r\nb' }}\r\n", "\n\n{% if true %}\n\n a{% endif %}\n\n",
    "{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "{% for x in [1,2,3,4] if x % 2 == 0 %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}"
    "{{ loop.last }}{{ loop.length }},{% endfor %}",
    "{% for x in 'añb' %}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.depth }}{{ loop.cycle('p', 'q') }}"
    "{{ loop.previtem is defined }}{{ loop.nextitem }}{{ x }} {% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}{% for x in [1] if x > 1 %}x{% else %}none{% endfor %}",
    "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}"
    "{{ x }}{% else %}e{% endfor %}",
    "{% for x in [1, 2] %}{% continue %}{% else %}e{% endfor %}{% for x in [1] %}{% break %}{% else %}f{% endfor %}",
    "{% for x in [1, 2] %}{% for y in [3, 4] %}{{ loop.index }}{{ x }}{{ y }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for i in [1, 2] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}",
    "{% macro f(a, b='q') %}[{{ a }}{{ b }}]{% endmacro %}{{ f(1) }}{{ f(1, b=2) }}{{ f(b=3, a=4) }}{{ f() }}",
    "{% macro fact(n) %}{{ n if n <= 1 else n * (fact(n - 1) | int) }}{% endmacro %}{{ fact(6) }}",
    "{% macro f(x) %}{% set y = x %}{{ y }}{{ z }}{% endmacro %}{% set z = 9 %}{{ f(1) }}{{ y }}",
    "{% macro f(a, b=a) %}{{ b }}{% endmacro %}{{ f(2) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(z=2) }}",
    "{% set x %}a{{ 1 }}{% set y = 5 %}{% endset %}{{ x }}{{ y }}",
    "{% set x | upper | replace('A', 'b') %}a{{ 'q' }}{% endset %}{{ x }}",
    "{% set a, b = 1, 2 %}{{ b }}{{ a }}{% set ns = namespace() %}{% set ns.x, c = 3, 4 %}{{ ns.x }}{{ c }}{{ ns.y }}",
    "{% set a, b = [1] %}", "{% set a.b = 1 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{% if x %}a{% elif d %}b{% else %}c{% endif %}{% if not x and d %}y{% endif %}",
    "{% set xs = messages | selectattr('role', 'equalto', 'nobody') %}{% if xs %}true{% endif %}{{ xs | list }}{{ xs | list }}",
    "{% set xs = [3, 4] | map('string') %}{{ xs | first }}{{ xs | join }}",
    M + "{% if m.role=='user' %}<u>{{m.content}}{% else %}<a>{% generation %}{{m.content}}</a>{% endgeneration %}{% endif %}{% endfor %}",
    M + "{% generation %}{% set q = 1 %}{{ m.role | upper }}é{% endgeneration %}{{ q }}\n{% endfor %}",
    "{{ '}}' }}{{ \"{%\" }}{{ {'a': {'b': 1}}['a']['b'] }}",
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}ok",
    "{% if nothing %}{{ 'x' | from_json }}{% elif 'y' is from_json %}{% endif %}ok", "{% if nothing %}{{ 'x' | from_json }}{% endif %}ok",
    "{% if true %}{{ 'x' | from_json }}{% endif %}ok", "{{ 'x' | from_json if nothing else 'ok' }}{{ 'ok' if true else 'y' is from_json }}",
    "{% if nothing %}{% for x in [1] %}{{ x | from_json }}{% endfor %}{% endif %}ok",
    "{% if nothing %}{% set x %}{{ 1 | from_json }}{% endset %}{% endif %}ok",
    "{% if nothing %}{% macro f() %}{{ 1 | from_json }}{% endmacro %}{% endif %}ok",
    "{% if nothing %}{% for x in [1] %}{% if x %}{{ x | from_json }}{% endif %}{% endfor %}{% endif %}ok",
    "{% if nothing %}{% for x in 1 | from_json %}{% endfor %}{% endif %}ok", "{{ 'x' | from_json }}",
    "{% for x in [1, 2] if x | from_json %}{% endfor %}",
]

GIVEN = dict(messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}],
             kwargs={"m": {"a": {"c": 1}}, "d": {"b": 1, "A": {"c": [1, 2]}, "items": 2},
                     "l": [{"k": 2, "n": "x"}, {"k": 1, "n": "y"}, {"k": 0, "n": "z"}]})


def main():
    print(json.dumps({"origin": f"scripts/make-chat-goldens.py, jinja2 {jinja2.__version__}, "
                                f"transformers {transformers.__version__}",
                      "given": dict(GIVEN, special_tokens=compare.TOKENS, now=compare.NOW)}))
    for template in EXPRESSIONS + STATEMENTS:
        made = compare.theirs(template, GIVEN)
        print(json.dumps(dict(made, template=template), ensure_ascii=False))


main()
