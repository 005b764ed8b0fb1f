#include "../kernels/matmul-int-table.cpp"
