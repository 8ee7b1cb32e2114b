// wiki_text: what an article of MediaWiki's says, without its markup.
//   left out     comments, templates, tables, references, galleries, formulas, files, categories,
//                links to other languages, tags, words like __TOC__, parentheses that were left
//                empty
//   kept         the labels of links, headings without their signs, lines of lists without theirs
// Entities become their characters, runs of spaces one, and parts are parted by one empty line.
#pragma once

#include <string>
#include <string_view>

namespace mt {

std::string wiki_text(std::string_view markup);

// The text of XML or HTML: its entities (&amp; &#228; &#xE4; &nbsp; ...) become their characters;
// what is no known one stays.
std::string without_entities(std::string_view text);

}  // namespace mt
