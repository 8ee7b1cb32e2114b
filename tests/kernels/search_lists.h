// Made lists of codes, and what visits them, for the tests of kernels/list_scan.h.
#pragma once

#include "kernels/list_scan.h"
#include "tests/kernels/check.h"

namespace mt::check {

// Codes of each kind in lists of 0 to 40 vectors; rows visit lists in an order of their own.
struct MadeLists {
  ListCodes kind;
  std::int64_t rows = 9, visited = 5, columns = 12, bytes = 0;
  std::vector<std::int64_t> begins = {0, 17, 17, 57, 60, 61, 90}, places = {};
  std::vector<std::uint8_t> codes = {};
  std::vector<float> centres, part_centres, ranges, x;
  std::vector<std::int32_t> ids, which;
  NumberCodes numbers = {};

  explicit MadeLists(ListCodes of, NumberCodes::Kind of_numbers = NumberCodes::Kind::bits8)
      : kind(of),
        centres(random<float>(lists() * columns, 1)),
        ranges(random<float>(2 * columns, 3, 0.1, 1)),
        x(random<float>(rows * columns, 4)) {
    numbers = {of_numbers, columns, ranges.data()};
    bytes = kind == ListCodes::products  ? 4
            : kind == ListCodes::numbers ? (columns * NumberCodes::bits_of(of_numbers) + 7) / 8
                                         : columns * std::int64_t{sizeof(float)};
    part_centres = random<float>(kPartCentres * columns, 2);
    if (kind == ListCodes::floats) {
      const std::vector<float> vectors = random<float>(count() * columns, 5);
      const auto* const first = reinterpret_cast<const std::uint8_t*>(vectors.data());
      codes.assign(first, first + count() * bytes);
    } else {
      for (std::int64_t i = 0; i < count() * bytes; ++i)
        codes.push_back(static_cast<std::uint8_t>(i * i + 13 * i));
    }
    // Of fp16 and bf16 no infinities: small exponents.
    if (kind == ListCodes::numbers && NumberCodes::bits_of(of_numbers) == 16)
      for (std::size_t i = 1; i < codes.size(); i += 2) codes[i] &= 0xbf;
    for (std::int64_t i = 0; i < count(); ++i)
      ids.push_back(static_cast<std::int32_t>((7 * i) % count()));
    std::int64_t place = 0;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < visited; ++i) {
        const std::int64_t list = (row + i) % lists();
        which.push_back(static_cast<std::int32_t>(list));
        places.push_back(place);
        place +=
            begins[static_cast<std::size_t>(list) + 1] - begins[static_cast<std::size_t>(list)];
      }
    places.push_back(place);  // how many there are
  }

  std::int64_t lists() const { return std::ssize(begins) - 1; }
  std::int64_t count() const { return begins.back(); }
  std::int64_t found() const { return places.back(); }

  CodeLists of_host() const {
    return {.kind = kind,
            .codes = codes.data(),
            .begins = begins.data(),
            .centres = kind == ListCodes::floats ? nullptr : centres.data(),
            .lists = lists(),
            .columns = columns,
            .bytes = bytes,
            .numbers = numbers,
            .part_centres = part_centres.data()};
  }
};

constexpr NumberCodes::Kind kNumberKinds[] = {NumberCodes::Kind::bits8, NumberCodes::Kind::bits6,
                                              NumberCodes::Kind::bits4, NumberCodes::Kind::fp16,
                                              NumberCodes::Kind::bf16};

// All that is found, on the CPU.
struct Scanned {
  std::vector<float> terms, tables, distances;
  std::vector<std::int32_t> numbers;

  explicit Scanned(const MadeLists& made)
      : terms(static_cast<std::size_t>(made.count())),
        distances(static_cast<std::size_t>(made.found())),
        numbers(distances.size()) {
    ListScan scan = {.lists = made.of_host(),
                     .ids = made.ids.data(),
                     .x = made.x.data(),
                     .rows = made.rows,
                     .visited = made.visited,
                     .which = made.which.data(),
                     .places = made.places.data()};
    if (made.kind == ListCodes::products) {
      tables.resize(static_cast<std::size_t>(made.rows * made.bytes * kPartCentres));
      cpu::code_terms(terms.data(), scan.lists);
      scan.lists.terms = terms.data();
      scan.tables = tables.data();
    }
    cpu::scan_lists(distances.data(), numbers.data(), scan);
  }
};

}  // namespace mt::check
