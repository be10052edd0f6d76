// Buffers, private and shared.
#include "llmtrain/device/device.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "llmtrain/core/error.hpp"
#include "llmtrain/device/shared_memory.hpp"

namespace llmtrain {
namespace {

constexpr index_t kBytes = 100000;

TEST(Device, SharesOnlyWhatCollectivesMove) {
  Device device(DeviceKind::cpu, Sharing::node), alone(DeviceKind::cpu);
  for (int i = 0; i < kMemoryUses; ++i) {
    const auto use = static_cast<MemoryUse>(i);
    const Buffer buffer = device.allocate(kBytes, use);
    const bool shared = use == MemoryUse::weights || use == MemoryUse::gradients;
    EXPECT_EQ(SharedMemory::find(buffer.data()).has_value(), shared) << name(use);
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + kBytes,
                            [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_EQ(device.used_bytes(use), kBytes);
    EXPECT_FALSE(SharedMemory::find(alone.allocate(kBytes, use).data()));
  }
  EXPECT_EQ(device.used_bytes(), 0);
}

TEST(SharedMemory, FindsAddresses) {
  Device device(DeviceKind::cpu, Sharing::node);
  const Buffer a = device.allocate(kBytes, MemoryUse::weights);
  const Buffer b = device.allocate(kBytes, MemoryUse::weights);
  const auto first = SharedMemory::find(a.data()),
             last = SharedMemory::find(a.data() + kBytes - 1);
  ASSERT_TRUE(first && last);
  EXPECT_EQ(first->id, last->id);
  EXPECT_EQ(first->bytes, kBytes);
  EXPECT_EQ(first->offset, 0);
  EXPECT_EQ(last->offset, kBytes - 1);
  EXPECT_NE(SharedMemory::find(b.data())->id, first->id);
  int local = 0;
  EXPECT_FALSE(SharedMemory::find(reinterpret_cast<std::byte*>(&local)));
}

TEST(SharedMemory, IdsAreNotUsedAgain) {
  Device device(DeviceKind::cpu, Sharing::node);
  std::uint64_t before = 0;
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t freed = SharedMemory::freed();
    Buffer buffer = device.allocate(kBytes, MemoryUse::weights);
    std::byte* const data = buffer.data();
    const std::uint64_t id = SharedMemory::find(data)->id;
    EXPECT_GT(id, before);
    before = id;
    buffer = {};
    EXPECT_FALSE(SharedMemory::find(data));
    EXPECT_EQ(SharedMemory::freed(), freed + 1);
  }
}

TEST(SharedMemory, PrivateWhenFilesAreShort) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  Device device(DeviceKind::cpu, Sharing::node);
  for (const rlim_t limit : {rlim_t{0}, rlim_t{4}}) {
    few.rlim_cur = limit;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const Buffer buffer = device.allocate(kBytes, MemoryUse::weights);
    EXPECT_FALSE(SharedMemory::find(buffer.data()));
    buffer.data()[kBytes - 1] = std::byte{1};
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Device, ShortageIsAnError) {
  for (const Sharing sharing : {Sharing::none, Sharing::node}) {
    Device device(DeviceKind::cpu, sharing);
    try {
      device.allocate(index_t{1} << 50, MemoryUse::weights);
      FAIL() << "allocated";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::resources);
      EXPECT_NE(std::string(error.what()).find("for weights"), std::string::npos);
    }
    EXPECT_EQ(device.used_bytes(), 0);
  }
}

}  // namespace
}  // namespace llmtrain
