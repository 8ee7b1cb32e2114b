#include "ops/view_loss.h"

#include "ops/check.h"

namespace mt {

void view_loss(const ViewLoss& p, const Views& views, Stream& stream) {
  check_shape("view_loss", "loss", p.loss, {views.rows()});
  check_shape("view_loss", "student", p.student, {views.rows(), views.cols});
  check_shape("view_loss", "teacher", p.teacher, {2 * views.images, views.cols});
  check_shape("view_loss", "center", p.center, {views.cols});
  check_shape("view_loss", "sharpness", p.sharpness, {2 * views.images});
  check_shape("view_loss", "row_weight", p.row_weight, {views.rows()});
  dispatch(
      Family::cross_entropy, p.student, moves(p.student, p.student, p.teacher), stream,
      [&]<class T>() {
        cpu::view_loss(p.loss.as<T>(), p.student.as<T>(), p.teacher.as<T>(), p.center.as<T>(),
                       p.sharpness.as<T>(), p.row_weight.as<T>(), views);
      },
      [&]<class T>() {
        cuda::view_loss(p.loss.as<float>(), p.student.as<T>(), p.teacher.as<T>(),
                        p.center.as<float>(), p.sharpness.as<float>(), p.row_weight.as<float>(),
                        views, stream.handle());
      });
}

}  // namespace mt
