import jax
import pytest


@pytest.fixture
def compilations():
    """The names of the compilations that happen during a test, as they happen."""
    events = []

    def listen(name, duration, **metadata):
        if "backend_compile" in name:
            events.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield events
    jax.monitoring.unregister_event_duration_listener(listen)
