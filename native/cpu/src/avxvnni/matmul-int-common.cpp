#include "../kernels/matmul-int-common.cpp"
