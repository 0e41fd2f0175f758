/* What heed_mpi.h needs of MPI, for a module that is linked to none: a handle, as Open MPI has it.
 * That of MPICH is an int (mpi_library.hpp). */
typedef struct any_mpi_comm* MPI_Comm;
