#include "data/corpus/wiki_dump.h"

#include <filesystem>
#include <optional>
#include <vector>

#include "base/command.h"
#include "base/error.h"
#include "base/file.h"
#include "base/input/byte_source.h"
#include "base/input/line_reader.h"
#include "base/json_parse.h"
#include "base/progress.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "data/corpus/line_filter.h"
#include "data/corpus/wiki_text.h"

namespace mt {

void WikiOptions::add_to(CommandLine& cl) {
  cl.positional("DUMP", &dump,
                "pages-articles.xml of a wiki, plain or packed by gzip, bzip2 or zstd; - is stdin");
  cl.option("--output,-o", &output, "FILE",
            "where the articles go, a JSON object a line; - is stdout");
  cl.required("--output");
  cl.option("--min-length", &min_chars, "N", "leave out articles of fewer bytes of text",
            at_least(1));
  cl.flag("--resume", &resume, "go on behind what a run that ended early has written");
  cl.flag("--force", &force, "replace the file");
  cl.option("--threads", &threads, "N", "threads; 0: one a core", between(0, 4096));
}

void WikiSummary::write(JsonWriter& json) const {
  json.begin_object().member("schema", "mt-wiki/1").member("pages", pages);
  json.member("articles", articles).member("redirects", redirects);
  json.member("other_namespaces", others).member("short", short_ones).member("before", before);
  json.end_object();
}

// --- Pages --------------------------------------------------------------------------------------

namespace {

constexpr std::size_t kMostOfPage = std::size_t{256} << 20;  // bytes

// What stands between <NAME ...> and </NAME>, the first of them; absent: there is none.
std::optional<std::string_view> element(std::string_view page, std::string_view name) {
  for (std::size_t at = 0;;) {
    at = page.find('<', at);
    if (at == page.npos) return {};
    const std::string_view rest = page.substr(at + 1);
    const bool is = rest.starts_with(name) && rest.size() > name.size() &&
                    std::string_view("> \t\n/").find(rest[name.size()]) != std::string_view::npos;
    ++at;
    if (!is) continue;
    const std::size_t end = rest.find('>');
    if (end == rest.npos) return {};
    if (rest[end - 1] == '/') return "";
    const std::string_view content = rest.substr(end + 1);
    const std::string close = concat("</", name, ">");
    const std::size_t stop = content.find(close);
    if (stop == content.npos) return {};
    return content.substr(0, stop);
  }
}

WikiPage page_of(std::string_view xml, const std::string& name, std::int64_t number) {
  const auto need = [&](std::string_view what) {
    const auto found = element(xml, what);
    if (!found) fail(Exit::bad_data, name, ": page ", number, ": has no <", what, ">");
    return *found;
  };
  WikiPage page;
  page.id = need("id");
  page.title = without_entities(need("title"));
  page.is_article = element(xml, "ns").value_or("0") == "0";
  page.is_redirect = element(xml, "redirect").has_value();
  if (page.is_article && !page.is_redirect) page.markup = without_entities(need("text"));
  return page;
}

}  // namespace

void for_wiki_pages(const std::string& name,
                    const std::function<std::size_t(std::span<char>)>& read,
                    const std::function<void(WikiPage page)>& use) {
  constexpr std::string_view kDump = "<mediawiki", kOpen = "<page>", kClose = "</page>";
  std::string kept;
  std::vector<char> buffer(std::size_t{1} << 18);
  std::int64_t pages = 0;
  std::size_t searched = 0;
  bool is_dump = false;
  while (const std::size_t count = read(buffer)) {
    kept.append(buffer.data(), count);
    is_dump = is_dump || kept.find(kDump) != kept.npos;
    for (std::size_t begin = 0;;) {
      const std::size_t open = kept.find(kOpen, begin);
      const std::size_t close =
          open == kept.npos ? kept.npos : kept.find(kClose, std::max(open, searched));
      if (close == kept.npos) {
        const std::size_t from =
            open == kept.npos ? std::max(begin, kept.size() - std::min(kept.size(), kDump.size()))
                              : open;
        kept.erase(0, from);
        searched = open == kept.npos ? 0 : kept.size() - std::min(kept.size(), kClose.size());
        break;
      }
      const std::size_t from = open + kOpen.size();
      use(page_of(std::string_view(kept).substr(from, close - from), name, ++pages));
      begin = close + kClose.size();
      searched = 0;
    }
    if (kept.size() > kMostOfPage)
      fail(Exit::bad_data, name, ": page ", pages + 1, ": more than ", kMostOfPage, " bytes");
  }
  if (!is_dump) fail(Exit::bad_data, name, ": has no <mediawiki>, expected a dump of a wiki");
  if (kept.find(kOpen) != kept.npos)
    fail(Exit::bad_data, name, ": page ", pages + 1, ": ends early");
}

// --- Articles -----------------------------------------------------------------------------------

namespace {

// What an earlier run has written: whole lines, and the id of the last one.
struct Written {
  std::uint64_t bytes = 0;
  std::int64_t lines = 0;
  std::string last = {};
};

Written written_in(const std::string& part) {
  Written written;
  if (!std::filesystem::exists(part)) return written;
  const MappedFile file(part);
  const std::string_view all(reinterpret_cast<const char*>(file.bytes().data()),
                             file.bytes().size());
  written.bytes = all.rfind('\n') == all.npos ? 0 : all.rfind('\n') + 1;
  if (written.bytes == 0) return written;
  written.lines = std::ranges::count(all.substr(0, written.bytes), '\n');
  const std::size_t before = all.rfind('\n', written.bytes - 2);
  const std::size_t begin = before == all.npos ? 0 : before + 1;
  simdjson::dom::parser parser;
  std::string_view id;
  if (parse_json(parser, all.substr(begin, written.bytes - begin))["id"].get(id))
    fail(Exit::bad_data, part, ": its last line has no id");
  written.last = id;
  return written;
}

class WikiWriter {
 public:
  WikiWriter(const WikiOptions& options, const RunContext& context)
      : options_(options),
        context_(context),
        workers_(options.threads),
        written_(options.resume ? written_in(part_path(options.output)) : Written()),
        sink_(options.resume ? LineSink(options.output, options.force, written_.bytes)
                             : LineSink(options.output, options.force, context)),
        progress_(context.log, "reading", "pages", 0) {
    skips_ = !written_.last.empty();
    summary_.before = written_.lines;
  }

  void take(WikiPage page) {
    ++summary_.pages;
    progress_.add(1);
    if (page.is_redirect) ++summary_.redirects;
    if (!page.is_article) ++summary_.others;
    if (skips_) {
      skips_ = page.id != written_.last;
      return;
    }
    if (!page.is_article || page.is_redirect) return;
    pages_.push_back(std::move(page));
    if (pages_.size() == kAtATime) write();
  }

  WikiSummary finish() {
    if (skips_)
      fail(Exit::bad_data, options_.dump, ": has no page ", written_.last,
           ", behind which the run is to go on");
    write();
    sink_.commit();
    progress_.finish();
    return summary_;
  }

 private:
  static constexpr std::size_t kAtATime = 256;

  void write() {
    context_.checkpoint();
    std::vector<std::string> lines(pages_.size());
    workers_.run([&] {
      parallel_for_ordered_errors(std::ssize(pages_), [&](std::int64_t i) {
        const WikiPage& page = pages_[static_cast<std::size_t>(i)];
        const std::string text = wiki_text(replace_invalid_utf8(page.markup));
        if (std::ssize(text) < options_.min_chars) return;
        JsonWriter json;
        json.begin_object().member("id", page.id);
        json.member("title", replace_invalid_utf8(page.title)).member("text", text).end_object();
        lines[static_cast<std::size_t>(i)] = json.text();
      });
    });
    for (const std::string& line : lines) {
      ++(line.empty() ? summary_.short_ones : summary_.articles);
      if (!line.empty()) sink_.write(line);
    }
    pages_.clear();
  }

  const WikiOptions& options_;
  const RunContext& context_;
  Workers workers_;
  Written written_;
  LineSink sink_;
  Progress progress_;
  WikiSummary summary_;
  std::vector<WikiPage> pages_;
  bool skips_ = false;
};

}  // namespace

WikiSummary read_wiki(const WikiOptions& options, const RunContext& context) {
  if (options.resume && (options.output == "-" || is_stream(options.output)))
    fail(Exit::usage, "--resume: not with --output ", options.output, ", which keeps nothing");
  refuse_inputs(std::vector{options.output}, std::vector{options.dump});
  refuse_terminal(options.dump);
  ByteSource source(options.dump, [&] { context.checkpoint(); });
  WikiWriter writer(options, context);
  for_wiki_pages(
      source.name(), [&](std::span<char> room) { return source.read(room); },
      [&](WikiPage page) { writer.take(std::move(page)); });
  return writer.finish();
}

}  // namespace mt
