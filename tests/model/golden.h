// Files of goldens of testdata/model that megatron-core made (testdata/README.md), and the weights
// that they are of.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "model/keys.h"
#include "tests/support/host_tensor.h"

namespace mt {

// The name of a row in Megatron-Core's local layers, whose norms are modules of their own.
inline std::string local_name(const Param& row) { return local_spec_place(row.place).name(); }

// Values that are functions of the places of rows in the order of their names, and of elements.
inline void fill_in_order(ParamTable& table, double c) {
  std::map<std::string, Param*> sorted;
  for (Param& row : table.rows()) sorted.emplace(local_name(row), &row);
  int t = 0;
  for (const auto& [name, row] : sorted) {
    const bool scale = name.find("norm") != std::string::npos && name.ends_with("weight");
    fill_with(row->value, [&](std::int64_t i) {
      const double wave = std::sin(0.7 * static_cast<double>(i + 1) + 0.9 * t);
      return scale ? 1 + c / 2 * wave : c * wave;
    });
    ++t;
  }
}

struct Golden {
  std::map<std::string, std::vector<double>> numbers;  // "losses", or of a row its gradient
  std::vector<std::vector<double>> steps;
};

inline Golden read_golden(const std::string& name) {
  Golden golden;
  std::ifstream file(MT_TESTDATA "/model/" + name + ".golden");
  std::string line, what;
  std::getline(file, line);  // versions
  while (std::getline(file, line)) {
    std::istringstream words(line);
    words >> what;
    if (what == "gradient") words >> what;
    const std::vector<double> numbers{std::istream_iterator<double>(words), {}};
    if (what == "step")
      golden.steps.push_back(numbers);
    else
      golden.numbers[what] = numbers;
  }
  return golden;
}

// Each gradient is the golden's to `tolerance` of the largest of its row.
inline void expect_gradients(const ParamTable& table, const Golden& golden, double tolerance) {
  for (const Param& row : table.rows()) {
    const std::vector<double>& expected = golden.numbers.at(local_name(row));
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(row.grad.numel())) << row.name();
    const double largest_one =
        std::abs(*std::ranges::max_element(expected, {}, [](double x) { return std::abs(x); }));
    for (std::int64_t i = 0; i < row.grad.numel(); ++i)
      ASSERT_NEAR(element(row.grad, i), expected[static_cast<std::size_t>(i)],
                  tolerance * largest_one)
          << row.name() << " " << i;
  }
}

}  // namespace mt
