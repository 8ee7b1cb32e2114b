#include "train/run/teacher_rows.h"

#include "formats/finite_weights.h"
#include "formats/model_source.h"
#include "model/config/model_config.h"
#include "model/families/distilled.h"
#include "model/model_table.h"
#include "tensor/host_copy.h"
#include "train/run/foreign_model.h"
#include "train/run/task.h"

namespace mt {

TeacherRows::TeacherRows(const Task& task)
    : source_(task.open_teacher()), words_(task.model().vocab_size) {
  if (source_) source_->check_all_used(model_rows(source_->config()));
}

TeacherRows::~TeacherRows() = default;

bool TeacherRows::fill(const Param& row) const {
  if (!is_teachers(row.place)) return false;
  Param own = row;
  own.place = own_place(row.place);
  const HostCopy here = HostCopy::for_writing(row.value);
  read_part(*source_, own, words_, here.tensor());
  check_finite(source_->path(), own, here.tensor());
  here.upload();
  return true;
}

}  // namespace mt
