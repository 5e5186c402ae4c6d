"""Entities and stages: code that brings each entity to rest, whatever changes it.

A kind is a table of the user's (or managed documents, or a DAO). A change of an entity, by whatever code,
offers a *system visit* in the same transaction; the system visit asks the stages of the kind; a stage's
visit runs `process` and saves entity, private state, timer and events in one transaction.

    kind.py        what app.entities makes: all that one does with a kind
    documents.py   what app.documents makes: managed JSON documents
    declaring.py   both, with their settings checked
    register.py    which kinds the database knows, and their triggers
    install.py     the same as `mainspring migrate` and `app.install` do it
    crawl.py       every stage asked about every entity
    resend.py      every entity told to one consumer
    replay.py      kept events brought to one consumer again
    offers.py      visits that stages and crawls offer
    layer.py       the kinds of an application as a layer of the kernel
    runtime.py     what one worker has of them: handlers, loaders, writers
    statements.py  the statements of all rooms, by name
    declare/       what users declare: kinds, stages, states, models, ids, consumers
    capture/       triggers that offer every change, and the same by an explicit call
    source/        entities read from a table, documents or a DAO
    visit/         system visits and stages' visits, from the row to an outcome
    save/          what a stage returned becomes one transaction
    remote/        stages that other services implement
    outbox/        events for consumers
    outside/       queues, states and entities changed from outside
    operate/       what operators ask and order
"""
