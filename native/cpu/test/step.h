// Stages a step for a test: the columns as vectors, written into the block of src/step.h.
#pragma once
#include <cstring>

#include "check.h"

struct TestStep {
  std::vector<int32_t> input_of, positions, visible_end, type_of, qo_indptr{0}, logit_rows;
  std::vector<int32_t> slots, kv_indptr{0}, kv_indices;  // one group
  int32_t page_size = 1;
  std::vector<int32_t> plan;  // header and arrays; empty: none

  explicit TestStep(void* context) : context_(context) { CHECK_OK(pg_step_create(context, &handle_)); }
  TestStep(const TestStep&) = delete;
  TestStep& operator=(const TestStep&) = delete;
  ~TestStep() { CHECK(pg_step_free(step()) == PG_OK); }
  void* step() const { return reinterpret_cast<void*>(handle_); }

  // A step of one row at positions 0, 1, ... with these inputs, no pages.
  void tokens(const std::vector<int32_t>& ids) {
    input_of = ids;
    positions.clear();
    for (size_t t = 0; t < ids.size(); t++) positions.push_back(static_cast<int32_t>(t));
    slots.assign(ids.size(), 0);
    qo_indptr = {0, static_cast<int32_t>(ids.size())};
    kv_indptr = {0, 0};
  }

  int32_t stage() {
    const int32_t rows = static_cast<int32_t>(qo_indptr.size()) - 1;
    const int32_t tokens = static_cast<int32_t>(positions.size());
    input_of.resize(positions.size(), 0);
    type_of.resize(positions.size(), 0);
    for (size_t t = visible_end.size(); t < positions.size(); t++) visible_end.push_back(positions[t] + 1);
    // No row has a state; one would keep it behind the row's last token.
    std::vector<int32_t> states(static_cast<size_t>(rows), -1), state_lens;
    for (size_t r = 1; r < qo_indptr.size(); r++) state_lens.push_back(qo_indptr[r] - qo_indptr[r - 1]);
    std::vector<int32_t> block{tokens, rows, static_cast<int32_t>(logit_rows.size()), page_size, 1, plan.empty() ? 0 : 1};
    using Column = const std::vector<int32_t>*;
    for (const Column part : {Column{&input_of}, Column{&positions}, Column{&visible_end}, Column{&type_of}, Column{&qo_indptr},
                              Column{&states}, Column{&state_lens}, Column{&logit_rows}})
      block.insert(block.end(), part->begin(), part->end());
    block.push_back(static_cast<int32_t>(kv_indices.size()));
    for (const auto* part : {&slots, &kv_indptr, &kv_indices, &plan}) block.insert(block.end(), part->begin(), part->end());
    uint64_t address = 0;
    void* context = context_;
    CHECK_OK(pg_step_reserve(context, step(), static_cast<int64_t>(block.size()), &address));
    std::memcpy(reinterpret_cast<void*>(address), block.data(), sizeof(int32_t) * block.size());
    // Every shorter block is refused, not read past its end.
    CHECK(pg_step_stage(context, step(), static_cast<int64_t>(block.size()) - 1) == PG_E_ARGUMENT);
    CHECK(pg_step_stage(context, step(), static_cast<int64_t>(block.size()) + 1) == PG_E_ARGUMENT);
    return pg_step_stage(context, step(), static_cast<int64_t>(block.size()));
  }

 private:
  void* context_;
  uint64_t handle_ = 0;
};
