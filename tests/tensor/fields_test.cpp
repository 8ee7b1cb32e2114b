#include "tensor/fields.h"

#include <gtest/gtest.h>

#include "tensor/buffer.h"

namespace mt {
namespace {

const FieldSpecs kSpecs = {
    {.field = Field::ids, .per_sample = 100},
    {.field = Field::loss_mask, .dtype = DType::f32, .per_sample = 100},
    {.field = Field::weight, .dtype = DType::f32, .per_sample = 1, .of_tokens = false}};

// Each field begins at a multiple of 256 bytes, and none reaches into the next.
TEST(Fields, LieBehindEachOtherInABlock) {
  for (const DType real : {DType::f32, DType::f64}) {
    const auto size = static_cast<std::int64_t>(size_of(real));
    const std::int64_t bytes = fields_bytes(kSpecs, 3, real);
    EXPECT_EQ(bytes, 1280 + (3 * 100 * size + 255) / 256 * 256 + 256);
    const Buffer buffer(Device::cpu, static_cast<std::size_t>(bytes));
    const Tensor block = buffer.tensor(DType::u8, {bytes});
    const Fields fields = fields_in(block, kSpecs, 3, real);
    const auto place = [&](Field field) {
      return static_cast<std::byte*>(fields[field].data()) - static_cast<std::byte*>(block.data());
    };
    EXPECT_EQ(place(Field::ids), 0);
    EXPECT_EQ(place(Field::loss_mask), 1280);
    EXPECT_EQ(place(Field::weight), bytes - 256);
    EXPECT_EQ(fields[Field::ids].dtype(), DType::i32);
    EXPECT_EQ(fields[Field::loss_mask].dtype(), real);
    EXPECT_EQ(fields[Field::loss_mask].shape(), (Shape{300}));
    EXPECT_EQ(fields[Field::weight].shape(), (Shape{3}));
    EXPECT_FALSE(fields[Field::first_key]);
    EXPECT_TRUE(fields.span<std::int32_t>(Field::first_key).empty());
  }
}

}  // namespace
}  // namespace mt
