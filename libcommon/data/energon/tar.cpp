#include "data/energon/tar.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::uint64_t kBlock = 512;
constexpr std::size_t kName = 100, kSize = 124, kChecksum = 148, kType = 156, kMagic = 257,
                      kPrefix = 345;

std::uint64_t whole_blocks(std::uint64_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

// A field of text, up to its first zero.
std::string_view text_at(std::string_view header, std::size_t at, std::size_t size) {
  const std::string_view field = header.substr(at, size);
  return field.substr(0, field.find('\0'));
}

// False for what is no number.
bool number_at(std::string_view header, std::size_t at, std::size_t size, std::uint64_t& number) {
  std::string_view field = header.substr(at, size);
  if (field[0] == '\x80') {
    number = 0;
    for (const char c : field.substr(size - 8)) number = number << 8 | static_cast<std::uint8_t>(c);
    return std::ranges::count(field.substr(1, size - 9), '\0') == std::ssize(field) - 9;
  }
  field = text_at(header, at, size);
  field.remove_prefix(std::min(field.find_first_not_of(' '), field.size()));
  field = field.substr(0, field.find(' '));
  number = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number, 8);
  return error == std::errc() && end == field.data() + field.size();
}

// The sum of a header's bytes, of which those of the sum itself count as blanks.
std::uint64_t checksum_of(std::string_view header) {
  std::uint64_t sum = 8 * std::uint64_t{' '};
  for (std::size_t i = 0; i < header.size(); ++i)
    if (i < kChecksum || i >= kChecksum + 8) sum += static_cast<std::uint8_t>(header[i]);
  return sum;
}

}  // namespace

// The header that stands here; nothing at the end.
std::string_view TarReader::block() const {
  const std::string_view all = as_text(file_.bytes());
  if (all.empty()) fail(Exit::bad_data, file_.path(), ": is empty, expected a tar file");
  if (at_ > all.size())
    fail(Exit::bad_data, file_.path(), ": byte ", all.size(), ": ends within the zeroes that fill ",
         at_, " bytes");
  if (at_ == all.size()) return {};
  const std::string_view header = all.substr(at_, kBlock);
  if (header.size() < kBlock)
    fail(Exit::bad_data, file_.path(), ": byte ", all.size(), ": ends within a header");
  if (std::ranges::all_of(header, [](char c) { return c == '\0'; })) return {};
  std::uint64_t sum = 0;
  if (!number_at(header, kChecksum, 8, sum) || sum != checksum_of(header))
    fail(Exit::bad_data, file_.path(), ": byte ", at_,
         at_ == 0 ? ": no header of a tar file" : ": a damaged header");
  return header;
}

std::string_view TarReader::content(std::uint64_t size) const {
  const std::string_view all = as_text(file_.bytes());
  const std::uint64_t begin = at_ + kBlock;
  if (begin > all.size() || size > all.size() - begin)
    fail(Exit::bad_data, file_.path(), ": byte ", all.size(), ": ends within a member of ", size,
         " bytes, which begins at ", at_);
  return all.substr(begin, size);
}

// "LEN key=value\n", several.
void TarReader::take_record(std::string_view record, Named& named) const {
  while (!record.empty()) {
    std::size_t length = 0;
    const char* const last = record.data() + record.size();
    const auto [end, error] = std::from_chars(record.data(), last, length);
    const auto digits = static_cast<std::size_t>(end - record.data());
    if (error != std::errc() || length <= digits + 1 || length > record.size() ||
        record[digits] != ' ' || record[length - 1] != '\n')
      fail(Exit::bad_data, file_.path(), ": byte ", at_, ": a damaged pax record");
    const std::string_view pair = record.substr(digits + 1, length - digits - 2);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) == "path") named.name = pair.substr(equals + 1);
    if (pair.substr(0, equals) == "size") named.size = pair.substr(equals + 1);
    record.remove_prefix(length);
  }
}

bool TarReader::next(TarMember& member) {
  Named named;
  member.header = at_;
  for (;;) {
    const std::string_view header = block();
    if (header.empty()) {
      if (at_ != member.header)
        fail(Exit::bad_data, file_.path(), ": byte ", at_,
             ": ends before the member of a long name");
      return false;
    }
    const char type = header[kType];
    std::uint64_t size = 0;
    if (!number_at(header, kSize, 12, size))
      fail(Exit::bad_data, file_.path(), ": byte ", at_, ": a member whose size is no number");
    if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
      const std::string_view inside = content(size);
      if (type == 'x') take_record(inside, named);
      if (type == 'L') named.name = inside.substr(0, inside.find('\0'));
      at_ += kBlock + whole_blocks(size);
      if (type == 'g') member.header = at_;  // which belongs to no member
      continue;
    }
    if (!named.size.empty()) {
      const char* const last = named.size.data() + named.size.size();
      const auto [end, error] = std::from_chars(named.size.data(), last, size);
      if (error != std::errc() || end != last)
        fail(Exit::bad_data, file_.path(), ": byte ", at_, ": a member whose size is no number");
    }
    member.is_regular = type == '0' || type == '\0' || type == '7';
    const bool has_content = member.is_regular || type < '1' || type > '6';
    member.name = text_at(header, 0, kName);
    const std::string_view prefix = text_at(header, kPrefix, 155);
    if (header.substr(kMagic, 6) == std::string_view("ustar\0", 6) && !prefix.empty())
      member.name = concat(prefix, "/", member.name);
    if (!named.name.empty()) member.name = named.name;
    member.data = at_ + kBlock;
    member.size = has_content ? size : 0;
    content(member.size);
    at_ += kBlock + whole_blocks(member.size);
    return true;
  }
}

void TarWriter::write(std::string_view bytes) {
  file_.write(bytes);
  at_ += bytes.size();
}

std::uint64_t TarWriter::add(const std::string& name, std::string_view content) {
  if (name.size() > 100) fail(Exit::internal, name, ": a member's name of ", name.size(), " bytes");
  std::string header(kBlock, '\0');
  const auto put = [&](std::size_t at, std::string_view text) {
    std::memcpy(header.data() + at, text.data(), text.size());
  };
  const auto octal = [&](std::size_t at, std::size_t digits, std::uint64_t number) {
    for (std::size_t i = digits; i-- > 0; number /= 8)
      header[at + i] = static_cast<char>('0' + number % 8);
    if (number > 0)
      fail(Exit::bad_data, name, ": ", content.size(), " bytes, too many for a tar file");
  };
  put(0, name);
  octal(100, 7, 0644);
  octal(108, 7, 0);
  octal(116, 7, 0);
  octal(kSize, 11, content.size());
  octal(136, 11, 0);
  header[kType] = '0';
  put(kMagic, std::string_view("ustar\0"
                               "00",
                               8));
  octal(329, 7, 0);
  octal(337, 7, 0);
  octal(kChecksum, 6, checksum_of(header));
  header[kChecksum + 7] = ' ';
  write(header);
  const std::uint64_t begin = at_;
  write(content);
  write(std::string(whole_blocks(content.size()) - content.size(), '\0'));
  return begin;
}

void TarWriter::finish() { file_.write(std::string(2 * kBlock, '\0')); }

}  // namespace mt
