#!/usr/bin/env python3
"""Writes testdata/wiki/things.xml.bz2, a dump of a wiki of forty pages, in two bzip2 streams, as MediaWiki's have several.

    scripts/make-wiki-dump.py testdata/wiki/things.xml.bz2

Some pages lead to others, some are of another namespace, and of some nothing is left without markup.
"""
import bz2
import sys
from xml.sax.saxutils import escape

pages = []
for i in range(1, 41):
    text = (f"'''Thing {i}''' is a [[thing]]{{{{cite|{i}}}}} of ''note''.\n\n== Use ==\n"
            f"* It is [[use|used]] {i} times.<ref>none</ref>\n[[Category:Things]]")
    redirect = ""
    if i % 9 == 0:
        text = "{{empty}}"
    if i % 10 == 0:
        redirect, text = '<redirect title="Thing 1" />', "#REDIRECT [[Thing 1]]"
    pages.append(f"  <page>\n    <title>Thing {i}</title>\n    <ns>{14 if i % 7 == 0 else 0}</ns>\n    <id>{100 + i}</id>\n"
                 f"    {redirect}\n    <revision>\n      <id>{900 + i}</id>\n"
                 f'      <text bytes="{len(text)}" xml:space="preserve">{escape(text)}</text>\n'
                 f"    </revision>\n  </page>\n")
dump = ('<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">\n'
        "  <siteinfo><sitename>Things</sitename></siteinfo>\n" + "".join(pages) + "</mediawiki>\n").encode()
half = len(dump) // 2
with open(sys.argv[1], "wb") as out:
    out.write(bz2.compress(dump[:half]) + bz2.compress(dump[half:]))
