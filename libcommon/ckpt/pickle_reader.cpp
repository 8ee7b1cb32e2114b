#include <algorithm>
#include <bit>
#include <charconv>
#include <deque>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/utf8.h"
#include "ckpt/pickle.h"
#include "ckpt/pickle_nodes.h"
#include "ckpt/pickle_text.h"

namespace mt {

constexpr std::size_t kMaxStack = std::size_t{1} << 17;
// What an allocator takes for a value with memory of its own and its place in nodes_, for an item
// of a container that grows, and for what is remembered.
constexpr std::uint64_t kNodeBytes = 112, kItemBytes = 2 * sizeof(PyValue),
                        kMemoBytes = sizeof(PyValue), kOddMemoBytes = 96,
                        kPartsBytes = 6 * sizeof(PyValue);  // of an object with a state or items
constexpr std::size_t kMaxName = 256;
constexpr std::uint64_t kMaxText = std::uint64_t{1} << 31;

// The virtual machine of pickletools.py: a stack, marks in it, and a memo.  Every container made is
// also listed in nodes_, so that whatever the stream built can be taken apart without recursion.
class PickleReader {
 public:
  PickleReader(Bytes stream, const std::string& name, Allowance& allowance)
      : stream_(as_text(stream)), name_(name), allowance_(allowance) {}
  PickleReader(const PickleReader&) = delete;
  ~PickleReader() {
    allowance_.give_back(kMemoBytes * memo_.size() + kOddMemoBytes * odd_memo_.size());
  }

  PyValue run(std::size_t* consumed) {
    keep(stream_.size());  // its pages
    for (;;) {
      opcode_at_ = at_;
      const unsigned char opcode = take(1)[0];
      if (opcode == '.') break;
      if (!scalar(opcode) && !container(opcode) && !building(opcode) && !memory(opcode) &&
          !text_form(opcode))
        bad("opcode ", static_cast<int>(opcode), " is unknown or not accepted");
      if (std::max(stack_.size(), marks_.size()) > kMaxStack)
        bad("more than ", kMaxStack, " values on the stack");
    }
    PyValue result = pop();
    if (consumed != nullptr)
      *consumed = at_;
    else if (at_ != stream_.size())
      bad("the pickle ends, ", stream_.size() - at_, " bytes before the end of the data");
    if (const auto wrong = nodes_.keep(result, stream_.size())) bad(*wrong);
    return result;
  }

 private:
  using Kind = PyValue::Kind;
  using Node = PyValue::Node;

  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail(Exit::bad_data, name_, ": byte ", opcode_at_, ": ", parts...);
  }

  // Input.

  const unsigned char* take(std::uint64_t count) {
    if (count > stream_.size() - at_)
      bad("needs ", count, " bytes, only ", stream_.size() - at_, " are left");
    const char* const begin = stream_.data() + at_;
    at_ += count;
    return reinterpret_cast<const unsigned char*>(begin);
  }

  std::uint64_t little(int bytes) {
    const unsigned char* const from = take(static_cast<std::uint64_t>(bytes));
    std::uint64_t number = 0;
    for (int i = bytes; i-- > 0;) number = number << 8 | from[i];
    return number;
  }

  std::string text(std::uint64_t length) {
    if (length > kMaxText) bad("a string of ", length, " bytes");
    const auto* const begin = reinterpret_cast<const char*>(take(length));
    keep(length);
    return {begin, length};
  }

  std::string_view line() {  // up to the line feed, which is taken too
    const std::size_t end = stream_.find('\n', at_);
    if (end == std::string_view::npos) bad("a line without end");
    const std::string_view result = stream_.substr(at_, end - at_);
    at_ = end + 1;
    keep(2 * result.size());  // of which a text is made, a piece at a time
    return result;
  }

  void keep(std::uint64_t bytes) { allowance_.take(bytes, name_); }

  // Stack.

  void push(PyValue value) {
    if (value.node_ != nullptr && value.node_.use_count() == 1) keep(kNodeBytes);
    stack_.push_back(std::move(value));
  }

  void push_new(PyValue value) { push(listed(std::move(value))); }  // a container

  PyValue& top() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) bad("the stack is empty");
    return stack_.back();
  }

  PyValue pop() {
    PyValue value = std::move(top());
    stack_.pop_back();
    return value;
  }

  std::vector<PyValue> pop_to_mark() {
    if (marks_.empty()) bad("there is no mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PyValue> values(std::make_move_iterator(begin),
                                std::make_move_iterator(stack_.end()));
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }

  std::vector<PyValue> pop_many(std::size_t count) {
    std::vector<PyValue> values(count);
    while (count > 0) values[--count] = pop();
    return values;
  }

  // Opcodes by subject; each returns whether it knew the opcode.

  bool scalar(unsigned char opcode) {
    switch (opcode) {
      case 'N':
        return push({}), true;
      case 0x88:
      case 0x89:
        return push(opcode == 0x88), true;
      case 'K':
        return push(little(1)), true;
      case 'M':
        return push(little(2)), true;
      case 'J':
        return push(static_cast<std::int32_t>(little(4))), true;
      case 0x8A:
        return push(PyValue::big_integer(text(little(1)))), true;
      case 0x8B:
        return push(PyValue::big_integer(text(little(4)))), true;
      case 'G':
        return push(big_endian_real()), true;
      case 0x8C:
        return push(text(little(1))), true;
      case 'X':
        return push(text(little(4))), true;
      case 0x8D:
        return push(text(little(8))), true;
      case 'C':
        return push(PyValue::bytes(text(little(1)))), true;
      case 'B':
        return push(PyValue::bytes(text(little(4)))), true;
      case 0x8E:
        return push(PyValue::bytes(text(little(8)))), true;
      case 0x96:
        return push_call("bytearray", PyValue::bytes(text(little(8)))), true;
      case 'U':
        return push(python2_string(text(little(1)))), true;
      case 'T':
        return push(python2_string(text(little(4)))), true;
      default:
        return false;
    }
  }

  bool container(unsigned char opcode) {
    switch (opcode) {
      case '(':
        return marks_.push_back(stack_.size()), true;
      case ')':
        return push_new(PyValue::tuple()), true;
      case 0x85:
      case 0x86:
      case 0x87:
        return push_new(PyValue::tuple(pop_many(opcode - 0x84u))), true;
      case 't':
        return push_new(PyValue::tuple(pop_to_mark())), true;
      case ']':
        return push_new(PyValue::list()), true;
      case 'l':
        return push_new(PyValue::list(pop_to_mark())), true;
      case '}':
        return push_new(PyValue::dict()), true;
      case 'd':
        return put_entries(pop_to_mark(), true), true;
      case 0x8F:
        return push_new(PyValue::set()), true;
      case 0x91:
        return frozen_set(), true;
      case 'a':
        return put_items(pop_many(1), Kind::list), true;
      case 'e':
        return put_items(pop_to_mark(), Kind::list), true;
      case 0x90:
        return put_items(pop_to_mark(), Kind::set), true;
      case 's':
        return put_entries(pop_many(2), false), true;
      case 'u':
        return put_entries(pop_to_mark(), false), true;
      default:
        return false;
    }
  }

  bool building(unsigned char opcode) {
    switch (opcode) {
      case 'c': {
        const std::string_view module = line();
        return push(PyValue::global(module, line())), true;
      }
      case 0x93:
        return stack_global(), true;
      case 'R': {
        PyValue args = pop();
        return build(pop(), std::move(args), false), true;
      }
      case 0x81: {
        PyValue args = pop();
        return build(pop(), std::move(args), true), true;
      }
      case 0x92: {
        PyValue kwargs = pop();
        if (!kwargs.is(Kind::dict)) bad("keyword arguments are ", name_of(kwargs.kind()));
        keep(kPartsBytes);
        PyValue args = pop();
        return build(pop(), std::move(args), true, std::move(kwargs)), true;
      }
      case 'o': {
        std::vector<PyValue> args = pop_to_mark();
        if (args.empty()) bad("an object without a class");
        PyValue type = std::move(args.front());
        args.erase(args.begin());
        return build(std::move(type), listed(PyValue::tuple(std::move(args))), false), true;
      }
      case 'i': {
        const std::string_view module = line();
        PyValue type = PyValue::global(module, line());
        return build(std::move(type), listed(PyValue::tuple(pop_to_mark())), false), true;
      }
      case 'b': {
        PyValue state = pop();
        if (!top().is(Kind::object)) bad("a state for ", name_of(top().kind()));
        keep(kPartsBytes);
        return top().set_state(std::move(state)), true;
      }
      case 'Q':
        return push_new(PyValue::persistent(pop())), true;
      default:
        return false;
    }
  }

  bool memory(unsigned char opcode) {
    switch (opcode) {
      case 0x80:
        if (const auto protocol = little(1); protocol > 5) bad("pickle protocol ", protocol);
        return true;
      case 0x95:
        if (const auto length = little(8); length > stream_.size() - at_)
          bad("a frame of ", length, " bytes, only ", stream_.size() - at_, " are left");
        return true;
      case '0':
        if (!marks_.empty() && marks_.back() == stack_.size()) return pop_to_mark(), true;
        return pop(), true;
      case '1':
        return pop_to_mark(), true;
      case '2':
        return push(PyValue(top())), true;
      case 'q':
        return remember(little(1)), true;
      case 'r':
        return remember(little(4)), true;
      case 'p':
        return remember(memo_number()), true;
      case 0x94:
        return remember(memo_.size() + odd_memo_.size()), true;
      case 'h':
        return get(little(1)), true;
      case 'j':
        return get(little(4)), true;
      case 'g':
        return get(memo_number()), true;
      default:
        return false;
    }
  }

  bool text_form(unsigned char opcode) {  // protocol 0
    switch (opcode) {
      case 'I': {
        const std::string_view digits = line();
        if (digits == "00" || digits == "01") return push(digits == "01"), true;
        return push(parse<std::int64_t>(digits)), true;
      }
      case 'L': {
        std::string_view digits = line();
        if (digits.ends_with('L')) digits.remove_suffix(1);
        return push(parse<std::int64_t>(digits)), true;
      }
      case 'F':
        return push(parse<double>(line())), true;
      case 'S':
        return push(python2_string(decoded(unquote_python(line())))), true;
      case 'V':
        return push(decoded(decode_raw_unicode(line()))), true;
      case 'P':
        return push_new(PyValue::persistent(std::string(line()))), true;
      default:
        return false;
    }
  }

  // What the opcodes do.

  double big_endian_real() {
    const unsigned char* const from = take(8);
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | from[i];
    return std::bit_cast<double>(bits);
  }

  static PyValue python2_string(std::string content) {  // Python 3 takes ASCII as str
    for (const char c : content)
      if (c & 0x80) return PyValue::bytes(std::move(content));
    return content;
  }

  PyValue listed(PyValue value) {
    nodes_.add(value.node_);
    keep(kNodeBytes + sizeof(PyValue) * value.node_->items.size());
    return value;
  }

  void push_call(const char* builtin, PyValue argument) {
    PyValue args = listed(PyValue::tuple({std::move(argument)}));
    push_new(PyValue::object(PyValue::global("__builtin__", builtin), std::move(args), false, {}));
  }

  void frozen_set() { push_call("frozenset", listed(PyValue::list(pop_to_mark()))); }

  void put_items(std::vector<PyValue> items, Kind kind) {
    PyValue& to = top();
    if (!to.is(kind) && !to.is(Kind::object)) bad("items for ", name_of(to.kind()));
    keep(kItemBytes * items.size());
    for (PyValue& item : items) to.append(std::move(item));
    list_part(to);
  }

  void put_entries(std::vector<PyValue> items, bool fresh) {
    if (items.size() % 2 != 0) bad("a key without a value");
    if (fresh) push_new(PyValue::dict());
    keep(kItemBytes * items.size());
    PyValue& to = top();
    if (!to.is(Kind::dict) && !to.is(Kind::object)) bad("entries for ", name_of(to.kind()));
    for (std::size_t i = 0; i < items.size(); i += 2)
      to.set_item(std::move(items[i]), std::move(items[i + 1]));
    list_part(to);
  }

  void list_part(const PyValue& to) {  // containers that an object made for its items
    if (!to.is(Kind::object)) return;
    for (const PyValue& part : to.node_->items)
      if (part.node_ != nullptr && part.node_.use_count() == 1) {
        nodes_.add(part.node_);
        keep(kNodeBytes + kPartsBytes);
      }
  }

  void stack_global() {
    const PyValue name = pop(), module = pop();
    if (!name.is(Kind::string) || !module.is(Kind::string)) bad("a class name that is no str");
    for (const std::string* part : {&module.node_->text, &name.node_->text})
      if (part->size() > kMaxName || part->find('\n') != std::string::npos)
        bad("a class name of ", part->size(), " characters, or with a line feed");
    push(PyValue::global(module.node_->text, name.node_->text));
  }

  void build(PyValue callable, PyValue args, bool by_newobj, PyValue kwargs = {}) {
    if (!args.is(Kind::tuple)) bad("arguments are ", name_of(args.kind()), ", expected a tuple");
    const std::vector<PyValue>& given = args.node_->items;
    if (!by_newobj && callable.is_global("_codecs", "encode")) return encode(given);
    if (!by_newobj && (callable.module() == "__builtin__" || callable.module() == "builtins")) {
      if (callable.name() == "bytes" && given.empty()) return push(PyValue::bytes({}));
      if (callable.name() == "set" && given.empty()) return push_new(PyValue::set());
      if (callable.name() == "set" && given.size() == 1 && given[0].is(Kind::list)) {
        PyValue items = given[0];  // not copied: one list may be named many times
        items.kind_ = Kind::set;
        return push(std::move(items));
      }
    }
    push_new(PyValue::object(std::move(callable), std::move(args), by_newobj, std::move(kwargs)));
  }

  void encode(const std::vector<PyValue>& args) {  // str in which each character is one byte
    if (args.size() != 2 || !args[0].is(Kind::string) || !args[1].is(Kind::string) ||
        (args[1].node_->text != "latin1" && args[1].node_->text != "latin-1"))
      bad("encode() of something else than (str, 'latin1')");
    const std::string& from = args[0].node_->text;
    keep(2 * from.size());
    std::string content;
    for (std::size_t i = 0; i < from.size();) {
      const char32_t point = next_code_point(from, i);
      if (point > 0xFF) bad("a character above U+00FF in bytes");
      content += static_cast<char>(point);
    }
    push(PyValue::bytes(std::move(content)));
  }

  void remember(std::uint64_t number) {
    if (number < memo_.size()) {
      memo_[number] = top();
    } else if (number == memo_.size()) {
      keep(kMemoBytes);
      memo_.push_back(top());
    } else {
      const auto [place, fresh] = odd_memo_.try_emplace(number);
      place->second = top();
      if (fresh) keep(kOddMemoBytes);
    }
  }

  void get(std::uint64_t number) {
    if (number < memo_.size()) return push(memo_[number]);
    const auto found = odd_memo_.find(number);
    if (found == odd_memo_.end()) bad("nothing was remembered as ", number);
    push(found->second);
  }

  std::uint64_t memo_number() { return static_cast<std::uint64_t>(parse<std::int64_t>(line())); }

  template <class Number>
  Number parse(std::string_view digits) const {
    Number number{};
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, number);
    if (error != std::errc() || stop != end)
      bad("a number of ", digits.size(), " characters that is none, or too large");
    return number;
  }

  std::string decoded(std::optional<std::string> text) const {
    if (!text) bad("a string whose quotes or escapes are wrong");
    return std::move(*text);
  }

  std::string_view stream_;
  const std::string& name_;
  std::size_t at_ = 0, opcode_at_ = 0;
  std::vector<PyValue> stack_;
  std::vector<std::size_t> marks_;
  std::deque<PyValue> memo_;  // numbered as they come, which all writers do
  std::unordered_map<std::uint64_t, PyValue> odd_memo_;  // under other numbers
  PickleNodes nodes_;
  Allowance& allowance_;
};

PyValue read_pickle(Bytes stream, const std::string& name, Allowance& allowance,
                    std::size_t* consumed) {
  return PickleReader(stream, name, allowance).run(consumed);
}

PyValue read_pickle(Bytes stream, const std::string& name) {
  Allowance allowance(stream.size());
  return read_pickle(stream, name, allowance);
}

}  // namespace mt
