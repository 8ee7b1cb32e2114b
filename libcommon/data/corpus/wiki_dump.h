// read_wiki: the articles of a dump of MediaWiki's, pages-articles.xml, plain or packed, as lines
// of JSON
//   {"id":"12","title":"...","text":"..."}
// in the dump's order, a few pages in memory at a time.  An article is a page of namespace 0 that
// leads nowhere else and says something (wiki_text.h).  What was written stays beside the output as
// OUTPUT.part where a run ends early, and `resume` goes on behind its last whole line: pages come
// in the same order again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/run_context.h"

namespace mt {

class CommandLine;

struct WikiOptions {
  std::string dump, output;
  std::int64_t min_chars = 1;  // bytes of a text
  bool resume = false, force = false;
  int threads = 0;
  void add_to(CommandLine& cl);
};

struct WikiSummary {
  std::int64_t pages = 0, articles = 0, redirects = 0, others = 0, short_ones = 0;
  std::int64_t before = 0;             // articles that were there
  void write(JsonWriter& json) const;  // schema mt-wiki/1
};

// Exit::bad_data, with the number of the page, for what is no such dump.
WikiSummary read_wiki(const WikiOptions& options, const RunContext& context);

struct WikiPage {
  std::string id, title, markup;
  bool is_article = false, is_redirect = false;  // of namespace 0; leads to another
};

// Calls use(page) for each <page> of the dump that `read` gives piece by piece: it fills its room
// and says how much, 0 at the end.
void for_wiki_pages(const std::string& name,
                    const std::function<std::size_t(std::span<char>)>& read,
                    const std::function<void(WikiPage page)>& use);

}  // namespace mt
