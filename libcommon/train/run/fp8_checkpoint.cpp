#include "train/run/fp8_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/log.h"
#include "train/run/broadcast_text.h"

namespace mt {

static constexpr auto kOperands = static_cast<std::size_t>(Fp8Layers::kOperands);

static PyValue list_of(const float* numbers, std::size_t count) {
  std::vector<PyValue> items;
  for (std::size_t i = 0; i < count; ++i) items.emplace_back(static_cast<double>(numbers[i]));
  return PyValue::list(std::move(items));
}

static PyValue value_of(const std::vector<float>& numbers) {
  const std::size_t length = numbers.size() / kOperands - 1;
  std::vector<PyValue> histories;
  for (std::size_t i = 0; i < kOperands; ++i)
    histories.push_back(list_of(numbers.data() + kOperands + i * length, length));
  return PyValue::dict({{"scale", list_of(numbers.data(), kOperands)},
                        {"amax_history", PyValue::list(std::move(histories))}});
}

// A stage's layers: of each its name, a line, and its numbers' bytes; all have as many.
static std::string packed(const std::vector<Fp8Layers::Memory>& memories) {
  std::string text;
  for (const Fp8Layers::Memory& memory : memories) {
    text += memory.name + "\n";
    text.append(reinterpret_cast<const char*>(memory.numbers.data()),
                memory.numbers.size() * sizeof(float));
  }
  return text;
}

static void add(PyValue& all, const std::string& text, std::size_t numbers) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    std::vector<float> of_one(numbers);
    std::memcpy(of_one.data(), text.data() + end + 1, numbers * sizeof(float));
    all.set_item(text.substr(at, end - at), value_of(of_one));
    at = end + 1 + numbers * sizeof(float);
  }
}

PyValue make_fp8(const Fp8Layers& fp8, const World& world, Stream& stream) {
  const std::string own = packed(fp8.memories(stream));
  PyValue all = PyValue::dict();
  Group& stages = world.pipeline();
  for (int stage = 0; stage < stages.size(); ++stage)
    add(all, broadcast_text(stages, stage == stages.rank() ? own : "", stage), fp8.remembered());
  return all;
}

static const std::vector<PyValue>& operands(const PyValue& stored, const char* name,
                                            const std::string& where) {
  const std::vector<PyValue>& items = stored.at(name, where).as_items(where);
  if (items.size() != kOperands)
    fail(Exit::bad_data, where, ": has ", items.size(), " items of ", name, ", expected ",
         kOperands);
  return items;
}

// `count` numbers, of which a list has the first.
static void read(float* to, std::size_t count, const std::vector<PyValue>& items,
                 const std::string& where) {
  for (std::size_t i = 0; i < std::min(count, items.size()); ++i)
    to[i] = static_cast<float>(items[i].as_real(where));
}

void load_fp8(Fp8Layers& fp8, const PyValue& common, const std::string& where, const World& world,
              Stream& stream, const Log& log) {
  const PyValue* const all = common.find("fp8");
  std::string anew;
  for (Fp8Layers::Memory& memory : fp8.memories(stream)) {
    const PyValue* const stored = all == nullptr ? nullptr : all->find(memory.name);
    if (stored == nullptr) {
      anew = memory.name;
      continue;
    }
    const std::string here = concat(where, ": fp8.", memory.name);
    const std::size_t length = memory.numbers.size() / kOperands - 1;
    read(memory.numbers.data(), kOperands, operands(*stored, "scale", here), here);
    const std::vector<PyValue>& histories = operands(*stored, "amax_history", here);
    for (std::size_t i = 0; i < kOperands; ++i)
      read(memory.numbers.data() + kOperands + i * length, length, histories[i].as_items(here),
           here);
    for (std::size_t i = 0; i < kOperands; ++i)
      if (!(memory.numbers[i] > 0 && std::isfinite(memory.numbers[i])))
        fail(Exit::bad_data, here, ": a scale is ", memory.numbers[i]);
    fp8.remember(memory, stream);
  }
  if (!anew.empty() && world.all().rank() == 0)
    log.note(
        concat(where, ": has no scales of ", all == nullptr ? "fp8" : anew, "; they begin anew"));
}

}  // namespace mt
