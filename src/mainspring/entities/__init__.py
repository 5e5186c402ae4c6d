"""Entities and stages: code that brings each entity to rest, whatever changes it.

A kind is a table of the user's (or managed documents, or a DAO). A change of an entity, by whatever code,
offers a *system visit* in the same transaction; the system visit asks the stages of the kind; a stage's
visit runs `process` and saves entity, private state, timer and events in one transaction.

    kind.py        what app.entities makes: source, key, version, model
    keys.py        ids as text and back
    table.py       the user's table, and whether a kind can stand on it
    model.py       rows as the user's types
    capture.py     the triggers that offer every change
    changed.py     the same by an explicit call
    documents.py   managed JSON documents
    dao.py         a data access object of the user's own
    doctor.py      what is wrong with the triggers
    stage.py       what @kind.stage makes
    outcome.py     what process returns
    state.py       private states, typed
    event.py       what a consumer gets
    clock.py       the time as a stage's code sees it
"""
