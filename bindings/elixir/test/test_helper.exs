# Some tests take long where the machine is busy.
ExUnit.start(timeout: 300_000)
