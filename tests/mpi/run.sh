#!/bin/sh
# run.sh MPIEXEC RANKS PROGRAM...: on this machine, more ranks than processors too, which wait without
# spinning. Open MPI and MPICH each ignore what is said to the other.
set -eu
mpiexec=$1
ranks=$2
shift 2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_btl=^tcp # it warns where a machine has no network
exec "$mpiexec" -n "$ranks" "$@"
