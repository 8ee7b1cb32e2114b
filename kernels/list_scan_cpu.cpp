#include "kernels/list_scan.h"

#include <cstring>

#include "kernels/loops.h"

namespace mt::cpu {
namespace {

// What the code of a part says.
const float* part_centre(const CodeLists& lists, std::int64_t part, std::uint8_t code) {
  return lists.part_centres + (part * kPartCentres + code) * lists.part_columns();
}

void fill_table(float* table, const CodeLists& lists, const float* x) {
  const std::int64_t width = lists.part_columns();
  for (std::int64_t i = 0; i < lists.parts() * kPartCentres; ++i) {
    const float* const part = x + i / kPartCentres * width;
    const float* const centre = lists.part_centres + i * width;
    table[i] = -2 * sum<float>(width, [&](std::int64_t c) { return part[c] * centre[c]; });
  }
}

// |x - c - v|^2, where v is the vector of a code.
float squared_distance(const CodeLists& lists, const float* x, const float* centre,
                       const std::uint8_t* code) {
  return sum<float>(lists.columns, [&](std::int64_t c) {
    float number = 0;
    if (lists.kind == ListCodes::numbers)
      number = lists.numbers.number(code, c);
    else if (lists.kind == ListCodes::floats)
      std::memcpy(&number, code + c * std::int64_t{sizeof number}, sizeof number);
    const float d = x[c] - (centre ? centre[c] : 0.0F) - number;
    return d * d;
  });
}

}  // namespace

void code_terms(float* terms, const CodeLists& lists) {
  const std::int64_t width = lists.part_columns();
  for_blocks(lists.lists, 1, [&](std::int64_t list, std::int64_t) {
    for (std::int64_t i = lists.begins[list]; i < lists.begins[list + 1]; ++i) {
      float term = 0;
      for (std::int64_t part = 0; part < lists.parts(); ++part) {
        const float* const r = part_centre(lists, part, lists.codes[i * lists.bytes + part]);
        const float* const centre = lists.centres + list * lists.columns + part * width;
        for (std::int64_t c = 0; c < width; ++c) term += r[c] * (r[c] + 2 * centre[c]);
      }
      terms[i] = term;
    }
  });
}

void scan_lists(float* distances, std::int32_t* numbers, const ListScan& scan) {
  const CodeLists& lists = scan.lists;
  const std::int64_t table_size = lists.parts() * kPartCentres;
  const bool products = lists.kind == ListCodes::products;
  for_blocks(scan.rows, 1, [&](std::int64_t row, std::int64_t) {
    const float* const x = scan.x + row * lists.columns;
    float* const table = scan.tables + (products ? row * table_size : 0);
    if (products) fill_table(table, lists, x);
    for (std::int64_t v = row * scan.visited; v < (row + 1) * scan.visited; ++v) {
      const std::int64_t list = scan.which[v], begin = lists.begins[list];
      const float* const centre = lists.centres ? lists.centres + list * lists.columns : nullptr;
      const auto whole = [&](std::int64_t c) { return (x[c] - centre[c]) * (x[c] - centre[c]); };
      const float far = products ? sum<float>(lists.columns, whole) : 0;
      for (std::int64_t i = begin; i < lists.begins[list + 1]; ++i) {
        const std::uint8_t* const code = lists.codes + i * lists.bytes;
        const std::int64_t place = scan.places[v] + i - begin;
        numbers[place] = scan.ids[i];
        if (!products) {
          distances[place] = squared_distance(lists, x, centre, code);
          continue;
        }
        float of_parts = 0;
        for (std::int64_t part = 0; part < lists.parts(); ++part)
          of_parts += table[part * kPartCentres + code[part]];
        distances[place] = far + lists.terms[i] + of_parts;
      }
    }
  });
}

}  // namespace mt::cpu
