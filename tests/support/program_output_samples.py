"""Program output samples: what real programs print about errors and warnings."""

PYTEST = """\
F.E                                                                      [100%]
==================================== ERRORS ====================================
__________________________ ERROR collecting test_b.py __________________________
ImportError while importing test module '/work/test_b.py'.
Traceback:
test_b.py:1: in <module>
    import nothere
E   ModuleNotFoundError: No module named 'nothere'
________________________ ERROR at setup of test_with_fixture ____________________
E       fixture 'nope' not found
>       available fixtures: capsys, tmp_path
=================================== FAILURES ===================================
____________________________________ test_x ____________________________________

    def test_x():
>       assert add(1, 1) == 3
E       assert 2 == 3
E        +  where 2 = add(1, 1)

test_a.py:3: AssertionError
_______________________________ TestC.test_p[1] ________________________________

>           {}["k"]
E           KeyError: 'k'

The above exception was the direct cause of the following exception:

>           raise ValueError("bad") from e
E           ValueError: bad

test_a.py:12: ValueError
__________________________________ test_bare ___________________________________
>       raise AssertionError
E       AssertionError
=============================== warnings summary ===============================
test_a.py::test_w
  /work/test_a.py:15: DeprecationWarning: foo is old
    warnings.warn("foo is old", DeprecationWarning)

-- Docs: https://docs.pytest.org/en/stable/how-to/capture-warnings.html
=========================== short test summary info ============================
FAILED test_a.py::test_x - assert 2 == 3
FAILED test_a.py::TestC::test_p[1] - ValueError: bad
FAILED test_a.py::test_bare - AssertionError
FAILED test_a.py::test_quiet - OSError: the disk is full
ERROR test_b.py
ERROR test_a.py::test_with_fixture
4 failed, 1 passed, 1 warning, 2 errors in 0.09s
"""
CHAINED = """\
Traceback (most recent call last):
  File "job.py", line 3, in <module>
    1 / 0
    ~~^~~
ZeroDivisionError: division by zero

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "job.py", line 5, in run
    raise app.JobError("outer") from e
app.JobError: outer
"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "job.py", line 1, in <module>
  | ExceptionGroup: many (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: a
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "job.py", line 9, in part
    | TypeError: b
    +------------------------------------
"""
UNITTEST = f"""\
FE
{"=" * 70}
FAIL: test_a (shop.Orders.test_a)
{"-" * 70}
Traceback (most recent call last):
  File "shop.py", line 3, in test_a
    self.assertEqual(1, 2)
AssertionError: 1 != 2

{"-" * 70}
Ran 1 test in 0.001s

FAILED (failures=1)
"""
GCC = """\
a.c: In function 'main':
a.c:2:38: warning: unused variable 'x' [-Wunused-variable]
    2 | int main(void){ int x; return foo }
a.c:2:53: error: 'foo' undeclared (first use in this function)
a.c:2:53: note: each undeclared identifier is reported only once
collect2: error: ld returned 1 exit status
"""
RUSTC = """\
error[E0382]: borrow of moved value: `x`
 --> src/main.rs:4:5
  |
warning: unused variable: `y`
 --> src/lib.rs:9:1
error: aborting due to 1 previous error; 1 warning emitted
error: could not compile `demo` (bin "demo") due to 1 previous error
"""
ESLINT = """\
/work/a.js
  1:10  error    'x' is defined but never used  no-unused-vars
  2:5   warning  Unexpected console statement   no-console

✖ 2 problems (1 error, 1 warning)
"""
NPM = """\
npm warn deprecated left-pad@1.3.0: use String.prototype.padStart()
npm error code ENOENT
npm error syscall open
npm error path /work/package.json
npm error errno -2
npm error enoent Could not read package.json
npm error enoent This is related to npm not being able to find a file.
npm error A complete log of this run can be found in: /root/.npm/_logs/x.log
"""
JAVA = """\
Exception in thread "main" java.lang.IllegalStateException: bad state
\tat A.main(A.java:1)
Caused by: java.io.IOException: no such disk
\t... 1 more
"""
GO = """\
--- FAIL: TestAdd (0.00s)
    add_test.go:9: want 2, got 0
FAIL
panic: runtime error: index out of range [5] with length 3
./main.go:5:2: undefined: foo
"""
