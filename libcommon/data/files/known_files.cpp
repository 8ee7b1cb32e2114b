#include "data/files/known_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace mt {
namespace {

constexpr const char* kHead = "MTKNOWN1\n";
constexpr std::int64_t kSecond = 1'000'000'000;  // ns

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

// A file as it is now, without its content.
struct State {
  std::string text;
  std::int64_t changed = 0;  // ns since the epoch
};

State state_of(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) fail_errno(path, "cannot stat", Exit::io_error);
  const std::int64_t written = nanoseconds(status.st_mtim), changed = nanoseconds(status.st_ctim);
  return {concat(kHead, std::filesystem::absolute(path).string(), "\n", status.st_size, " ",
                 status.st_ino, "\n", written, " ", changed, "\n"),
          std::max(written, changed)};
}

// Within a tick of the clock that stamps files a later change may have the same time.
bool has_settled(const State& state) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::nanoseconds(now).count() - state.changed > kSecond / 20;
}

}  // namespace

std::string KnownFiles::name_of(const std::string& path) const {
  const std::string absolute = std::filesystem::absolute(path).string();
  return folder_ + "/" + hash_hex(as_bytes(absolute)) + ".known";
}

std::string KnownFiles::hash(const std::string& path,
                             const std::function<std::string()>& read) const {
  if (!kept()) return read();
  if (auto hash = find(path)) return std::move(*hash);
  const State before = state_of(path);
  std::string hash = read();
  if (has_settled(before) && state_of(path).text == before.text) keep(path, hash);
  return hash;
}

std::optional<std::string> KnownFiles::find(const std::string& path) const {
  const std::string name = name_of(path);
  if (!std::filesystem::exists(name)) return std::nullopt;
  const std::string known = read_file(name), state = state_of(path).text;
  if (!known.starts_with(state) || known.size() != state.size() + hash_hex({}).size() + 1)
    return std::nullopt;
  return known.substr(state.size(), known.size() - state.size() - 1);
}

void KnownFiles::keep(const std::string& path, const std::string& hash) const {
  if (!kept()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  try {
    write_file_atomically(name_of(path), concat(state_of(path).text, hash, "\n"), true);
  } catch (const Error&) {  // a folder that others keep: next time it is read again
  }
}

}  // namespace mt
