#include "../kernels/matmul-int-grid.cpp"
