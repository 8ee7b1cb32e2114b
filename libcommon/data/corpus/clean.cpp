#include "data/corpus/clean.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <unordered_set>

#include "base/command.h"
#include "base/error.h"
#include "base/input/read_input.h"
#include "base/utf8.h"
#include "data/corpus/text_repair.h"
#include "data/corpus/words.h"

namespace mt {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

// Address: host and path of an address, lower-case: "http://user@a.b.c.:80/p?q#f" -> "a.b.c" and
// "/p"; of "http://[::1]:80/" -> "[::1]" and "/".
struct Address {
  std::string_view host, path;
};
Address address_of(std::string_view url) {
  const std::size_t letters = url.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789+-.");
  if (letters != 0 && letters != url.npos && url.substr(letters).starts_with("://"))
    url.remove_prefix(letters + 3);
  else if (url.starts_with("//"))
    url.remove_prefix(2);
  url = url.substr(0, url.find_first_of("?#"));
  Address address;
  address.host = url.substr(0, url.find('/'));
  address.path = url.substr(address.host.size());
  std::string_view& host = address.host;
  host = host.substr(host.rfind('@') + 1);
  const std::size_t bracket = host.starts_with('[') ? host.find(']') : 0;
  host = host.substr(0, host.find(':', std::min(bracket, host.size())));
  if (host.ends_with('.')) host.remove_suffix(1);
  return address;
}

// Hosts, and the ends of paths, that are not wanted.
class BlockedUrls {
 public:
  explicit BlockedUrls(const std::string& path) {
    const std::string content = read_input(path, [] {});
    std::string_view rest = content;
    for (int number = 1; !rest.empty(); ++number) {
      std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
      line = line.substr(0, line.find_last_not_of(kBlanks) + 1);
      if (line.empty() || line.starts_with('#')) continue;
      if (line.starts_with('.')) {
        ends_.push_back(lower(line));
        continue;
      }
      if (line.find_first_of("/*|^,; \t") != line.npos)  // which would drop nothing
        fail(Exit::bad_data, path, ":", number, ": ", line,
             ": expected a host, as example.org, or the end of paths, as .jpg");
      hosts_.insert(lower(line));
    }
  }

  bool contains(std::string_view url) const {
    const std::string text = lower(url);
    auto [host, path] = address_of(text);
    for (const std::string& end : ends_)
      if (path.ends_with(end)) return true;
    for (;;) {  // a.b.c, then b.c, then c
      if (hosts_.contains(std::string(host))) return true;
      const std::size_t dot = host.find('.');
      if (dot == host.npos) return false;
      host.remove_prefix(dot + 1);
    }
  }

 private:
  static constexpr const char* kBlanks = " \r\t";
  std::unordered_set<std::string> hosts_;
  std::vector<std::string> ends_;
};

std::vector<UScriptCode> scripts_of(const std::vector<std::string>& names) {
  std::vector<UScriptCode> scripts;
  for (const std::string& name : names) {
    const std::int32_t script = u_getPropertyValueEnum(UCHAR_SCRIPT, name.c_str());
    if (script == UCHAR_INVALID_CODE)
      fail(Exit::usage, "--scripts ", name, ": expected a script's name in Unicode, as Latin");
    scripts.push_back(static_cast<UScriptCode>(script));
  }
  return scripts;
}

bool mostly_in(const std::vector<UScriptCode>& scripts, std::string_view text) {
  std::int64_t letters = 0, wanted = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto point = static_cast<UChar32>(next_code_point(text, at));
    if (u_isalpha(point) == 0) continue;
    UErrorCode status = U_ZERO_ERROR;
    const UScriptCode script = uscript_getScript(point, &status);
    ++letters;
    wanted += std::find(scripts.begin(), scripts.end(), script) != scripts.end() ? 1 : 0;
  }
  return letters > 0 && 2 * wanted >= letters;
}

std::int64_t characters_in(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace

void CleanOptions::add_to(CommandLine& cl) {
  lines.add_to(cl);
  cl.section("What to do");
  cl.flag("--repair", &repair,
          "mend misread UTF-8, line ends and control characters; Unicode's form NFC");
  cl.option("--min-words", &min_words, "N", "drop texts of fewer words", at_least(0));
  cl.option("--min-characters", &min_characters, "N", "drop texts of fewer characters",
            at_least(0));
  cl.option("--scripts", &scripts, "NAME",
            "drop texts of which less than half the letters are Latin, Cyrillic, Han ...");
  cl.option("--blocked-urls", &blocked_urls, "FILE",
            "drop pages of these hosts, a line each; a line as .jpg: what paths end with");
  cl.option("--url-key", &url_key, "KEY", "member with the page's address, for --blocked-urls");
}

FilterSummary clean_lines(const CleanOptions& options, const RunContext& context) {
  const std::vector<UScriptCode> scripts = scripts_of(options.scripts);
  std::optional<BlockedUrls> blocked;
  std::vector<std::string> keys = {options.lines.key};
  if (!options.blocked_urls.empty()) {
    if (options.url_key == options.lines.key)
      fail(Exit::usage, "--url-key ", options.url_key, ": is the text's");
    check_read_beside(options.lines, {options.blocked_urls});
    blocked.emplace(options.blocked_urls);
    keys.push_back(options.url_key);
  } else if (options.url_key != CleanOptions().url_key) {
    fail(Exit::usage, "--url-key: is for --blocked-urls");
  }
  const auto judge = [&](std::string_view line, const std::vector<std::string_view>& texts) {
    if (blocked && blocked->contains(texts[1])) return LineFate{.dropped = "url"};
    const std::string mended = options.repair ? repaired(texts[0]) : std::string();
    const std::string_view text = options.repair ? std::string_view(mended) : texts[0];
    if (options.min_characters > 0 && characters_in(text) < options.min_characters)
      return LineFate{.dropped = "short"};
    if (options.min_words > 0 &&
        static_cast<std::int64_t>(word_hashes(text).size()) < options.min_words)
      return LineFate{.dropped = "short"};
    if (!scripts.empty() && !mostly_in(scripts, text)) return LineFate{.dropped = "script"};
    if (text == texts[0]) return LineFate{};
    return LineFate{.changed = with_text(line, options.lines.key, text)};
  };
  return filter_lines(options.lines, keys, context, judge,
                      [](const LineFate& fate) { return fate; });
}

}  // namespace mt
