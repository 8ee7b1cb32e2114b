#include "base/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <sstream>

#include "base/error.h"
#include "base/json.h"

namespace mt {

Log::Log(Settings settings) : settings_(std::move(settings)) {
  if (settings_.progress == Show::json) settings_.format = Format::json;
}

Log Log::for_rank(int rank) const {
  Log copy = *this;
  copy.settings_.rank = rank;
  return copy;
}

Log Log::without_drawing() const {
  Log copy = *this;
  if (draws()) copy.settings_.progress = Show::none;
  return copy;
}

bool Log::shows(Level at) const {
  return settings_.level >= at && (at == Level::quiet || settings_.rank.value_or(0) == 0);
}

// A log that cannot be written to has nobody to be told.
static void write(int descriptor, const std::string& text) {
  [[maybe_unused]] const ssize_t written = ::write(descriptor, text.data(), text.size());
}

void Log::write_line(std::string line) const {
  line += '\n';
  if (settings_.drawing->stands.exchange(false)) line.insert(0, "\r\x1b[K");
  write(settings_.descriptor, line);
}

static double now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(since).count()) /
         1000;
}

static void begin_json(JsonWriter& json, std::string_view event, const Log::Settings& settings) {
  json.begin_object().member("event", event).member("time", now());
  if (!settings.program.empty()) json.member("program", settings.program);
  json.member("rank", settings.rank.value_or(0));
}

// A value of a text line, quoted as in JSON if it would not read as one word.
static std::string word(const LogField& field) {
  JsonWriter json;
  std::visit([&](const auto& value) { json.value(value); }, field.value);
  const auto* const text = std::get_if<std::string_view>(&field.value);
  const bool plain = text != nullptr && !text->empty() &&
                     text->find_first_of(" =\"\\") == std::string_view::npos &&
                     json.text().size() == text->size() + 2;  // nothing was escaped
  return plain ? std::string(*text) : json.text();
}

bool Log::draws() const {
  return settings_.terminal && settings_.format == Format::text &&
         settings_.progress == Show::automatic && shows(Level::normal) && !settings_.drawing->over;
}

// Takes away what is drawn, and ends the program as the signal would have.
static void erase_and_end(int number) {
  constexpr std::string_view kErase = "\r\x1b[K";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kErase.data(), kErase.size());
  ::raise(number);
}

// Signals that end the program at once take away what is drawn.  Those that are ignored, or held
// back by a Signals, stay so.
static void erase_on_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGQUIT}) {
    struct sigaction now;
    if (::sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    struct sigaction action = {};
    action.sa_handler = erase_and_end;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    ::sigaction(number, &action, nullptr);
  }
}

void Log::draw_no_more() const {
  draw();
  settings_.drawing->over = true;
}

void Log::draw(std::string_view text) const {
  if (!draws()) return;
  const bool stood = settings_.drawing->stands.exchange(!text.empty());
  if (text.empty() && !stood) return;
  if (!stood && settings_.descriptor == STDERR_FILENO) erase_on_signals();
  winsize window = {};
  ::ioctl(settings_.descriptor, TIOCGWINSZ, &window);
  if (window.ws_col > 0) text = text.substr(0, window.ws_col - 1u);
  std::string line = "\r";
  line.append(text).append("\x1b[K");
  write(settings_.descriptor, line);
}

void Log::event(std::string_view name, std::span<const LogField> fields, Level at) const {
  if (!shows(at)) return;
  if (settings_.format == Format::json) {
    JsonWriter json;
    begin_json(json, name, settings_);
    for (const LogField& field : fields)
      std::visit([&](const auto& value) { json.member(field.key, value); }, field.value);
    return write_line(json.end_object().text());
  }
  std::ostringstream line;
  line << name;
  for (const LogField& field : fields) line << ' ' << field.key << '=' << word(field);
  if (settings_.rank) line << " rank=" << *settings_.rank;
  write_line(std::move(line).str());
}

void Log::say(std::string_view kind, std::string_view text) const {
  if (settings_.format == Format::json) {
    JsonWriter json;
    begin_json(json, kind, settings_);
    return write_line(json.member("message", text).end_object().text());
  }
  std::string line = settings_.program.empty() ? "" : settings_.program + ": ";
  if (settings_.rank) line += "rank " + std::to_string(*settings_.rank) + ": ";
  if (kind == "warning") line += settings_.color ? "\x1b[33mwarning:\x1b[0m " : "warning: ";
  for (const char c : text) line += c == '\n' ? ' ' : c;
  write_line(line);
}

void Log::note(std::string_view text) const {
  if (shows(Level::normal)) say("note", text);
}
void Log::detail(std::string_view text) const {
  if (shows(Level::verbose)) say("detail", text);
}
void Log::debug(std::string_view text) const {
  if (shows(Level::debug)) say("debug", text);
}
void Log::warn(std::string_view text) const { say("warning", text); }

void Log::error(std::string_view text, int code) const {
  if (settings_.format == Format::text) return write_line(concat(settings_.program, ": ", text));
  JsonWriter json;
  begin_json(json, "error", settings_);
  write_line(json.member("message", text).member("exit", code).end_object().text());
}

}  // namespace mt
