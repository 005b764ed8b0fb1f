// What pg_low_rank is told of one adapter at one matrix, for rows that follow each other. Numbers of 64 bits all: the host writes one array.
#pragma once

namespace pg {

struct LowRankItem {
  double a, b;  // weights [rank, inputs] and [outputs, rank], of one segment each
  double row, n;
  double first_col;
  double scale;
};

}  // namespace pg
