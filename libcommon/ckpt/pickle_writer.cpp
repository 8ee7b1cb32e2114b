#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"
#include "ckpt/pickle.h"

namespace mt {
namespace {

constexpr std::size_t kBatch = 1000;  // items in one APPENDS or SETITEMS, as Python has it

class Writer {
 public:
  std::string run(const PyValue& value) {
    out_ = "\x80\x02";
    put(value, 0);
    out_ += '.';
    return std::move(out_);
  }

 private:
  using Kind = PyValue::Kind;

  void little(std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(number >> 8 * i);
  }

  void put_integer(std::int64_t number) {
    if (0 <= number && number < 1 << 8) {
      out_ += 'K';
      little(static_cast<std::uint64_t>(number), 1);
    } else if (0 <= number && number < 1 << 16) {
      out_ += 'M';
      little(static_cast<std::uint64_t>(number), 2);
    } else if (number == static_cast<std::int32_t>(number)) {
      out_ += 'J';
      little(static_cast<std::uint64_t>(number), 4);
    } else {
      int bytes = 8;  // the fewest that keep the sign
      while (bytes > 1 && number >> (8 * (bytes - 1) - 1) == (number < 0 ? -1 : 0)) --bytes;
      out_ += "\x8A";
      out_ += static_cast<char>(bytes);
      little(static_cast<std::uint64_t>(number), bytes);
    }
  }

  void put_big_integer(const std::string& content) {
    if (content.size() > 255) fail(Exit::internal, "pickle: an int of ", content.size(), " bytes");
    out_ += "\x8A";
    out_ += static_cast<char>(content.size());
    out_ += content;
  }

  void put_real(double number) {
    const auto bits = std::bit_cast<std::uint64_t>(number);
    out_ += 'G';
    for (int i = 7; i >= 0; --i) out_ += static_cast<char>(bits >> 8 * i);
  }

  void put_string(std::string_view text) {
    if (text.size() > std::numeric_limits<std::uint32_t>::max())
      fail(Exit::internal, "pickle: a str of ", text.size(), " bytes");
    out_ += 'X';
    little(text.size(), 4);
    out_ += text;
  }

  void put_bytes(const std::string& content) {
    if (content.empty()) {
      out_ += "c__builtin__\nbytes\n)R";
      return;
    }
    std::string text;
    for (const char c : content) append_utf8(text, static_cast<unsigned char>(c));
    out_ += "c_codecs\nencode\n";
    put_string(text);
    put_string("latin1");
    out_ += "\x86R";
  }

  void put_tuple(const std::vector<PyValue>& items, int depth) {
    if (items.empty()) {
      out_ += ')';
    } else if (items.size() <= 3) {
      for (const PyValue& item : items) put(item, depth);
      out_ += static_cast<char>(0x84 + items.size());
    } else {
      out_ += '(';
      for (const PyValue& item : items) put(item, depth);
      out_ += 't';
    }
  }

  void put_appends(const std::vector<PyValue>& items, int depth) {
    for (std::size_t begin = 0; begin < items.size(); begin += kBatch) {
      const std::size_t end = std::min(items.size(), begin + kBatch);
      if (end - begin > 1) out_ += '(';
      for (std::size_t i = begin; i < end; ++i) put(items[i], depth);
      out_ += end - begin > 1 ? 'e' : 'a';
    }
  }

  void put_set_items(const std::vector<PyValue>& entries, int depth) {
    for (std::size_t begin = 0; begin < entries.size(); begin += 2 * kBatch) {
      const std::size_t end = std::min(entries.size(), begin + 2 * kBatch);
      out_ += '(';
      for (std::size_t i = begin; i < end; ++i) put(entries[i], depth);
      out_ += 'u';
    }
  }

  void put_global(const PyValue& value) {
    out_ += 'c';
    out_ += value.module();
    out_ += '\n';
    out_ += value.name();
    out_ += '\n';
  }

  void put_object(const PyValue& value, int depth) {
    if (value.kwargs() != nullptr)
      fail(Exit::internal, "pickle: ", value.name(), " with keyword arguments needs protocol 4");
    put(value.callable(), depth);
    put_tuple(value.args(), depth);
    out_ += value.by_newobj() ? "\x81" : "R";
    put_appends(value.appended(), depth);
    put_set_items(value.set_items(), depth);
    if (value.state() != nullptr) {
      put(*value.state(), depth);
      out_ += 'b';
    }
  }

  void put(const PyValue& value, int depth) {
    if (++depth > kMaxPickleNesting)
      fail(Exit::internal, "pickle: nesting deeper than ", kMaxPickleNesting);
    switch (value.kind()) {
      case Kind::none:
        out_ += 'N';
        break;
      case Kind::boolean:
        out_ += value.as_bool("") ? "\x88" : "\x89";
        break;
      case Kind::integer:
        put_integer(value.as_integer(""));
        break;
      case Kind::big_integer:
        put_big_integer(value.as_bytes(""));
        break;
      case Kind::real:
        put_real(value.as_real(""));
        break;
      case Kind::string:
        put_string(value.as_string(""));
        break;
      case Kind::bytes:
        put_bytes(value.as_bytes(""));
        break;
      case Kind::tuple:
        put_tuple(value.as_items(""), depth);
        break;
      case Kind::list:
        out_ += ']';
        put_appends(value.as_items(""), depth);
        break;
      case Kind::set:
        out_ += "c__builtin__\nset\n]";
        put_appends(value.as_items(""), depth);
        out_ += "\x85R";
        break;
      case Kind::dict:
        out_ += '}';
        put_set_items(value.entries(""), depth);
        break;
      case Kind::global:
        put_global(value);
        break;
      case Kind::object:
        put_object(value, depth);
        break;
      case Kind::persistent:
        put(value.persistent_id(), depth);
        out_ += 'Q';
        break;
    }
  }

  std::string out_;
};

}  // namespace

std::string write_pickle(const PyValue& value) { return Writer().run(value); }

}  // namespace mt
