// Shapes and views.
#include "tensor/shape.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/host_tensor.h"

namespace mt {
namespace {

TEST(Shape, ExtentsFromEitherEnd) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[2], 5);
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape[-3], 2);
  EXPECT_EQ(shape.numel(), 30);
}

TEST(Shape, WithoutAxesHasOneElementAndWithAnEmptyAxisNone) {
  EXPECT_EQ(Shape().numel(), 1);
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ((Shape{4, 0, 3}).numel(), 0);
}

TEST(Shape, EqualityLooksAtRankAndExtents) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3} == Shape{3, 2}));
  EXPECT_FALSE((Shape{2, 3} == Shape{2, 3, 1}));
  EXPECT_FALSE((Shape{1} == Shape{}));
}

TEST(Shape, WithFront) {
  EXPECT_EQ((Shape{2, 3}.with_front(7)), (Shape{7, 2, 3}));
  EXPECT_EQ(Shape().with_front(7), Shape{7});
}

TEST(Shape, Prints) {
  std::ostringstream out;
  out << Shape{2, 3, 5} << Shape{} << Shape{4};
  EXPECT_EQ(out.str(), "[2, 3, 5][][4]");
}

TEST(Tensor, EmptyOneHasNoAddress) {
  const Tensor tensor;
  EXPECT_FALSE(tensor);
  EXPECT_EQ(tensor.numel(), 0);
  EXPECT_EQ(tensor.bytes(), 0U);
}

TEST(Tensor, RowsAndReshapesShareTheElements) {
  const HostTensor owner(DType::f32, {4, 2, 3});
  fill_with(owner, [](std::int64_t i) { return static_cast<double>(i); });
  const Tensor rows = owner.view().rows(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(rows.bytes(), 48U);
  EXPECT_EQ(rows.as<float>()[0], 6);
  const Tensor flat = rows.reshape({12});
  flat.span<float>()[11] = -1;
  EXPECT_EQ(owner.span<float>()[17], -1);
  const ConstTensor same = flat;
  EXPECT_EQ(same.data(), rows.data());
  EXPECT_EQ(same.rows(3, 5).as<float>(), rows.as<float>() + 3);
}

TEST(Tensor, NoRowsAtTheEndAndOfAnEmptyTensor) {
  const HostTensor owner(DType::f64, {4, 2});
  EXPECT_EQ(owner.view().rows(4, 4).shape(), (Shape{0, 2}));
  EXPECT_EQ(owner.view().rows(4, 4).data(), owner.view().as<double>() + 8);
  const Tensor none(owner.view().data(), DType::f64, {0, 2});
  EXPECT_EQ(none.rows(0, 0).data(), owner.view().data());
}

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::f64), 8U);
  EXPECT_EQ(size_of(DType::i64), 8U);
  EXPECT_EQ(size_of(DType::f32), 4U);
  EXPECT_EQ(size_of(DType::i32), 4U);
  EXPECT_EQ(size_of(DType::f16), 2U);
  EXPECT_EQ(size_of(DType::bf16), 2U);
  EXPECT_EQ(size_of(DType::i16), 2U);
  EXPECT_EQ(size_of(DType::i8), 1U);
  EXPECT_EQ(size_of(DType::u8), 1U);
  EXPECT_EQ(size_of(DType::boolean), 1U);
  EXPECT_EQ(name_of(DType::f32), "float32");
  EXPECT_EQ(name_of(DType::bf16), "bfloat16");
  EXPECT_EQ(name_of(DType::boolean), "bool");
}

TEST(DType, OnlyFloatingPointComputes) {
  EXPECT_EQ(with_float_type(DType::f64, []<class T>() { return sizeof(T); }), 8U);
  EXPECT_EQ(with_float_type(DType::f32, []<class T>() { return sizeof(T); }), 4U);
  EXPECT_THROW(with_float_type(DType::i32, []<class T>() { return sizeof(T); }), Error);
}

}  // namespace
}  // namespace mt
