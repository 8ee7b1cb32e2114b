// Log: the talk of a program, one event per line on stderr, each line a single write(2), so that
// lines of several ranks do not mix.  A value that can be copied; thread-safe.
//
//   log.event("step", {{"iteration", 120}, {"loss", 3.4182}});
//   text: step iteration=120 loss=3.4182
//   json: {"event":"step","time":1764190800.123,"rank":0,"iteration":120,"loss":3.4182}
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace mt {

class Activities;

// A name and a value of an event.  Views only: lives as long as the call.
struct LogField {
  LogField(std::string_view name, bool truth) : key(name), value(truth) {}
  LogField(std::string_view name, std::integral auto number)
      : key(name), value(static_cast<std::int64_t>(number)) {}
  LogField(std::string_view name, double number) : key(name), value(number) {}
  LogField(std::string_view name, std::string_view text) : key(name), value(text) {}
  LogField(std::string_view name, const char* text) : LogField(name, std::string_view(text)) {}
  LogField(std::string_view name, const std::string& text)
      : LogField(name, std::string_view(text)) {}

  std::string_view key;
  std::variant<bool, std::int64_t, double, std::string_view> value;
};

class Log {
 public:
  enum class Level { quiet, normal, verbose, debug };  // --quiet, none, -v, -vv
  enum class Format { text, json };
  enum class Show { automatic, json, none };  // --progress

  // The last line of a terminal, one for all of its logs.
  struct Drawing {
    std::atomic<bool> stands = false;  // something does
    std::atomic<bool> over = false;    // nothing will any more
  };
  struct Settings {
    std::string program = {};  // stands before notes and warnings
    Level level = Level::normal;
    Format format = Format::text;
    Show progress = Show::automatic;
    bool color = false;     // may warnings be coloured
    bool terminal = false;  // lines go to a terminal, where a progress bar may stand
    // Where there are several it stands in every line of text, and a rank above 0 only warns.  JSON
    // says 0 where there is none.
    std::optional<int> rank = {};
    int descriptor = 2;
    std::shared_ptr<Activities> activities = {};  // what tells of itself on USR2 (activity.h)
    std::shared_ptr<Drawing> drawing = std::make_shared<Drawing>();
  };

  Log() = default;                  // normal, text, stderr
  explicit Log(Settings settings);  // with Show::json every line is JSON
  Log for_rank(int rank) const;
  Log without_drawing() const;  // whose lines are the same

  // Something that happened, with its numbers; shown from `at` upwards.
  void event(std::string_view name, std::span<const LogField> fields,
             Level at = Level::normal) const;
  void event(std::string_view name, std::initializer_list<LogField> fields,
             Level at = Level::normal) const {
    event(name, std::span(fields.begin(), fields.size()), at);
  }
  void note(std::string_view text) const;    // "mt-convert: text", not under --quiet
  void detail(std::string_view text) const;  // with -v
  void debug(std::string_view text) const;   // with -vv
  void warn(std::string_view text) const;    // always, of every rank: "mt-convert: warning: text"
  // Always, of every rank, an event of this name in JSON, else "mt-convert: text".
  void say(std::string_view name, std::string_view text) const;

  // Always, of every rank, what ends the program with this code: "mt-convert: text".
  void error(std::string_view text, int code) const;

  // Draws the text in the last line of a terminal, cut to its width, in place of what stood there;
  // without a text nothing stands there any more.  A line that is written takes its place.
  void draw(std::string_view text = {}) const;
  // Nothing stands there from now on, in any log of it: what ends at once leaves nothing behind.
  void draw_no_more() const;

  bool draws() const;  // is it a terminal, where that is wanted?

  bool shows(Level at) const;
  const Settings& settings() const { return settings_; }
  void write_line(std::string line) const;  // adds the newline; unconditional

 private:
  Settings settings_;
};

}  // namespace mt
