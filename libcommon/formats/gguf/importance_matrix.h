// ImportanceMatrix: how much errors in each column of a model's matrices count: the mean of x² of
// what the column multiplies in a text, by tensors of a GGUF file.  llama.cpp's llama-imatrix
// writes it in two forms:
//   GGUF   of each tensor NAME of `matrices` matrices (experts) NAME.in_sum2, float32 [matrices,
//          columns], and NAME.counts, float32 [matrices, 1]: sums / counts, and 1 where the count
//          is 0
//   .dat   i32 tensors; of each i32 bytes of the name, the name, i32 calls, i32 numbers, and as
//          many float32, which calls, where above 0, divide; what follows is passed over
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace mt {

class ImportanceMatrix {
 public:
  ImportanceMatrix() = default;
  // Exit::bad_data for a file that is neither, is cut, or has a number that is below 0, above 1e20
  // or none.
  explicit ImportanceMatrix(const std::string& path);

  void add(const std::string& tensor, std::vector<float> columns);
  std::size_t tensors() const { return of_tensor_.size(); }
  bool has(const std::string& tensor) const { return of_tensor_.contains(tensor); }
  // Returns the numbers of the `part`-th of a tensor's matrices with so many columns; empty where
  // the tensor has none.  Exit::bad_data for others than as many matrices with as many columns.
  std::span<const float> of(const std::string& tensor, std::int64_t part, std::int64_t parts,
                            std::int64_t columns) const;

 private:
  void read_gguf();
  void read_dat();

  std::string path_;
  std::map<std::string, std::vector<float>> of_tensor_;
};

}  // namespace mt
