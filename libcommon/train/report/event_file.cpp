#include "train/report/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/folder.h"
#include "text/sentencepiece/protobuf_writer.h"

namespace mt {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table = {};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78U : 0);
    table[i] = crc;
  }
  return table;
}
constexpr auto kCrcTable = make_crc_table();

std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8U; }

template <class T>
std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

ProtobufWriter event(double wall_time) { return ProtobufWriter().f64(1, wall_time); }

std::string record(const std::string& data) {
  const std::string length = little_endian(static_cast<std::uint64_t>(data.size()));
  return length + little_endian(masked(crc32c(length))) + data +
         little_endian(masked(crc32c(data)));
}

double wall_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// A file of this second that does not exist yet.
File create_event_file(const std::string& folder) {
  make_folder(folder);
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0 || *host == '\0') std::strcpy(host, "localhost");
  const std::string stem =
      concat(folder, "/events.out.tfevents.", static_cast<std::int64_t>(wall_time()), ".", host,
             ".", ::getpid());
  for (int i = 0;; ++i) {
    const std::string path = concat(stem, ".", i);
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) return {descriptor, path};
    if (errno != EEXIST) fail_errno(path, "cannot create", Exit::cannot_create);
  }
}

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  std::uint32_t crc = ~0U;
  for (const char c : data)
    crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

std::string scalar_record(double wall_time, std::int64_t step, std::string_view tag, float value) {
  const ProtobufWriter entry = ProtobufWriter().bytes(1, tag).f32(2, value);
  return record(event(wall_time)
                    .integer(2, static_cast<std::uint64_t>(step))
                    .message(5, ProtobufWriter().message(1, entry))
                    .content());
}

std::string version_record(double wall_time) {
  return record(event(wall_time).bytes(3, "brain.Event:2").content());
}

EventFile::EventFile(const std::string& folder, std::int64_t queue_size)
    : file_(create_event_file(folder)), queue_size_(queue_size) {
  file_.write(version_record(wall_time()));
}

EventFile::~EventFile() {
  try {
    flush();
  } catch (const Error&) {
  }
}

void EventFile::scalar(std::string_view tag, double value, std::int64_t step) {
  queue_ += scalar_record(wall_time(), step, tag, static_cast<float>(value));
  if (++queued_ >= queue_size_ || Clock::now() - flushed_ > std::chrono::minutes(2)) flush();
}

void EventFile::flush() {
  file_.write(std::exchange(queue_, {}));
  queued_ = 0;
  flushed_ = Clock::now();
}

}  // namespace mt
