#include "tensor/gpu_code.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

constexpr const char* kAll =
    "75-real,80-real,86-real,89-real,90a-real,100-real,120-real,100-virtual";

TEST(GpuCode, IsTheNearestOfTheSameGenerationOrElsePtx) {
  EXPECT_EQ(code_for(75, kAll), 75);
  EXPECT_EQ(code_for(80, kAll), 80);
  EXPECT_EQ(code_for(87, kAll), 86);
  EXPECT_EQ(code_for(90, kAll), 90);
  EXPECT_EQ(code_for(103, kAll), 100);
  EXPECT_EQ(code_for(110, kAll), 100);  // of the PTX
  EXPECT_EQ(code_for(121, kAll), 120);
  EXPECT_EQ(code_for(130, kAll), 100);
  EXPECT_EQ(code_for(90, "80-virtual"), 80);
  EXPECT_EQ(code_for(120, "80-virtual,100-virtual"), 100);
  EXPECT_EQ(code_for(90, "80-virtual,90a-real"), 90);
}

TEST(GpuCode, ServesNoOtherGeneration) {
  EXPECT_EQ(code_for(80, "90a-real"), 0);
  EXPECT_EQ(code_for(100, "90a-real"), 0);
  EXPECT_EQ(code_for(80, "86-real"), 0);
  EXPECT_EQ(code_for(75, "80-virtual"), 0);
  EXPECT_EQ(code_for(90, "75-real,80-real,86-real,89-real"), 0);
  EXPECT_EQ(code_for(61, kAll), 0);
}

TEST(GpuCode, SaysWhatIsMissing) {
  EXPECT_EQ(without_code({"NVIDIA A100-SXM4-40GB", 80}, "90a-real"),
            "NVIDIA A100-SXM4-40GB (compute capability 8.0): this build has code for 90a alone; "
            "configure it with -DMT_GPUS=80, or all");
  EXPECT_EQ(without_code({"NVIDIA H200", 90}, "80-real,120-real,120-virtual"),
            "NVIDIA H200 (compute capability 9.0): this build has code for 80, 120, 120-virtual "
            "alone; configure it with -DMT_GPUS=90a, or all");
  EXPECT_EQ(without_code({"NVIDIA H200", 90}, "check"),
            "NVIDIA H200 (compute capability 9.0): this build has code to be checked alone; "
            "configure it with -DMT_GPUS=90a, or all");
  EXPECT_EQ(without_code({"NVIDIA TITAN Xp", 61}, kAll),
            "NVIDIA TITAN Xp (compute capability 6.1) is older than Turing, 7.5, the first that "
            "there is code for");
  EXPECT_EQ(without_code({"NVIDIA B200", 100}, kAll), "");
}

TEST(GpuCode, OfTuringHasNoBf16) {
  EXPECT_EQ(without_bf16({"Tesla T4", 75}, kAll),
            "Tesla T4 (compute capability 7.5) runs code for 75, which has no products of bf16; "
            "take --fp16, or --dtype fp32");
  EXPECT_NE(without_bf16({"NVIDIA H100", 90}, "75-virtual"), "");
  EXPECT_EQ(without_bf16({"NVIDIA GeForce RTX 3090", 86}, kAll), "");
  EXPECT_EQ(without_bf16({"NVIDIA H100", 90}, "75-real"),
            "");  // that it has no code is said before
}

TEST(GpuCode, OfEightBitsBeginsWithAda) {
  EXPECT_EQ(without_fp8({"NVIDIA A100", 80}),
            "NVIDIA A100 (compute capability 8.0) has no products of eight bits; Ada, 8.9, is the "
            "first that has");
  for (const int capability : {89, 90, 100, 120})
    EXPECT_EQ(without_fp8({"GPU", capability}), "") << capability;
}

}  // namespace
}  // namespace mt
