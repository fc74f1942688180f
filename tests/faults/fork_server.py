"""Process that imports TensorFlow once (10 s) and forks a child for each command line.

TensorFlow is imported and not used here, since it does not survive a fork once it has started. Requests are read as
lines of JSON from standard input, and responses are written to standard output.
"""

import json
import os
import sys

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"


def serve() -> None:
    # Imported for the children, which start with them.
    import gpflow  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import sklearn.cluster  # noqa: F401

    import dgpbench.methods.structured
    import dgpbench.predictive.scores
    import dgpbench.runs.execute  # noqa: F401

    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(_start(request) if "code" in request else _wait(request["pid"])), flush=True)


def _start(request: dict) -> int:
    pid = os.fork()
    if pid == 0:
        _child(request)
    return pid


def _wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _child(request: dict) -> None:
    """Run the code with the command line in its variable ``arguments``; never returns."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number, handle in enumerate((nothing, output, output)):
        os.dup2(handle, number)
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    code = 70
    try:
        names = {"arguments": request["arguments"], "code": 0}
        exec(request["code"], names)
        code = names["code"]
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
