// TeacherRows: the rows of a task's model that are its teacher's (model/families/distilled.h).
// They are read from the teacher whenever a run begins, and never saved.
#pragma once

#include <cstdint>
#include <memory>

#include "tensor/param.h"

namespace mt {

class ModelSource;
class Task;

class TeacherRows {
 public:
  explicit TeacherRows(const Task& task);
  ~TeacherRows();

  explicit operator bool() const { return source_ != nullptr; }
  // Fills a row's part with what the teacher has; returns false where the row is not a teacher's.
  bool fill(const Param& row) const;

 private:
  std::unique_ptr<const ModelSource> source_;
  std::int64_t words_;
};

}  // namespace mt
